"""Every recipe needs data, and says so in one way."""

import pytest

from clearhead.errors import SettingsError
from clearhead.tasks import TASKS
from clearhead.tasks.recipe import parse_recipe


@pytest.mark.parametrize("kind", [*TASKS])
def test_a_recipe_without_files_is_refused(kind):
    name = "captions" if kind == "captioning" else "train"
    data = {name: []} | ({"source": "en", "target": "de"} if kind == "translation" else {})
    with pytest.raises(SettingsError) as error:
        parse_recipe({"kind": kind, "data": data})
    [problem] = [one for one in error.value.problems if one.startswith(f"data.{name}: ")]
    assert problem.startswith(f"data.{name}: is empty; name a")

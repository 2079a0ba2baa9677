"""clearhead cache: the token stores that runs keep for later ones."""

import sys
from typing import TYPE_CHECKING, Annotated

from clearhead.cli.console import print_result, print_status
from clearhead.cli.options import Json, option
from clearhead.errors import SettingsError
from clearhead.wording import counted

if TYPE_CHECKING:
    from clearhead.data.cache import CachedStore


def cache(
    clear: Annotated[bool, option("Delete all token stores.", name="--clear")] = False,
    yes: Annotated[bool, option("Delete without confirmation.", name="--yes")] = False,
    json: Json = False,
) -> None:
    """Show the size of the cache, or clear it.

    The cache holds the tokens of training data, so that another run on the same files starts at once. It is
    in the folder that CLEARHEAD_CACHE names, or in ~/.cache/clearhead. --clear deletes nothing else in
    that folder, and trained models do not need the cache.

    \b
    Examples:
      clearhead cache
      clearhead cache --clear
      clearhead cache --clear --yes
    """
    from clearhead.data.cache import cache_folder, cached_stores

    if yes and not clear:
        raise SettingsError("--yes: needs --clear; without it nothing is deleted")
    folder = cache_folder()
    stores = cached_stores(folder)
    total = f"{counted(len(stores), 'token store')}, {_size(sum(store.size for store in stores))}"
    if clear:
        print_status(f"{folder}: {total}")
        if stores and not yes and not _confirmed():
            print_status("nothing was deleted")
            return
        _clear(stores, json)
    elif json:
        for store in stores:
            record = {"path": str(store.path), "bytes": store.size, "built": store.built.isoformat()}
            print_result({**record, "content": store.content})
    else:
        print_result(f"{folder}: {total}")
        for store in stores:
            print_result(f"{_size(store.size):>12}  {store.built}  {store.content}")


def _confirmed() -> bool:
    """Whether the user agrees; raises SettingsError without a terminal."""
    if sys.stdin is None or not sys.stdin.isatty():
        raise SettingsError("--clear: stdin is no terminal; pass --yes to delete without confirmation")
    sys.stderr.write("delete them? [y/N] ")
    sys.stderr.flush()
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def _clear(stores: "list[CachedStore]", json: bool) -> None:
    from clearhead.data.cache import remove_store

    removed = [store for store in stores if remove_store(store)]
    freed = sum(store.size for store in removed)
    if left := len(stores) - len(removed):
        print_status(f"{counted(left, 'token store')} left, because a run is building there")
    text = f"deleted {counted(len(removed), 'token store')}, {_size(freed)}"
    print_result({"deleted": len(removed), "bytes": freed} if json else text)


def _size(count: int) -> str:
    """A number of bytes, such as "1.2 MB"."""
    return f"{count / 1e6:,.1f} MB" if count >= 1e5 else f"{count / 1e3:,.1f} kB"

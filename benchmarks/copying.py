"""How many lines keep their numbers, URLs, addresses, placeholders, tags and emoji in translation.

    python benchmarks/copying.py [MODEL] [--lines 500] [--json FILE]

For each direction, lines are made from templates of its source language with a fixed seed. A line is whole if
every item is in its translation exactly as often as in the source. "plain" is `translate` in Python, "line"
is `clearhead translate`, "model" is `translate_document` before repairs by alignment, "document" its result.
"""

import argparse
import json
import random
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import clearhead
from clearhead import TranslateOptions, Translation
from clearhead.tasks.translation.lines import with_items

TEMPLATES = {
    "en": (
        "Visit {url} before {time}.",
        "Please send {amount} to {mail}.",
        "Hello {hole}, you have {number} new messages.",
        "I paid {amount} for {number} books {emoji} yesterday.",
        "The meeting is on {date} at {time}.",
        "<b>Do not open</b> the file {code} before {date}.",
        "My number is {number}, and my house is on {url}.",
        "We have {number} dogs and {number} cats. {emoji}",
        "{emoji} Write to {mail} if you need {number} chairs.",
        "He said that {hole} cost {amount} in {year}.",
        "The temperature was {degrees} at {time}.",
        "Can you read {code} without {hole}?",
        "In {year}, {share} of the children were ill.",
        '<a href="{url}">Read this</a> and call {number} people.',
        "The train leaves at {time} from platform {number}.",
        "Does {mail} know that {url} is broken?",
    ),
    "de": (
        "Besuchen Sie {url} vor {time} Uhr.",
        "Bitte schick {amount} an {mail}.",
        "Hallo {hole}, du hast {number} neue Nachrichten.",
        "Ich habe gestern {amount} für {number} Bücher {emoji} bezahlt.",
        "Das Treffen ist am {date} um {time} Uhr.",
        "<b>Öffne die Datei nicht</b>, bevor du {code} gelesen hast.",
        "Meine Nummer ist {number}, und mein Haus ist auf {url}.",
        "Wir haben {number} Hunde und {number} Katzen. {emoji}",
        "{emoji} Schreib an {mail}, wenn du {number} Stühle brauchst.",
        "Er sagte, dass {hole} im Jahr {year} {amount} gekostet hat.",
        "Die Temperatur war {degrees} um {time} Uhr.",
        "Kannst du {code} ohne {hole} lesen?",
        "Im Jahr {year} waren {share} der Kinder krank.",
        '<a href="{url}">Lies das</a> und ruf {number} Leute an.',
        "Der Zug fährt um {time} Uhr von Gleis {number} ab.",
        "Weiß {mail}, dass {url} kaputt ist?",
    ),
    "fr": (
        "Visitez {url} avant {time}.",
        "Veuillez envoyer {amount} à {mail}.",
        "Bonjour {hole}, tu as {number} nouveaux messages.",
        "J'ai payé {amount} pour {number} livres {emoji} hier.",
        "La réunion est le {date} à {time}.",
        "<b>N'ouvrez pas</b> le fichier {code} avant le {date}.",
        "Mon numéro est {number}, et ma maison est sur {url}.",
        "Nous avons {number} chiens et {number} chats. {emoji}",
        "{emoji} Écris à {mail} si tu as besoin de {number} chaises.",
        "Il a dit que {hole} coûtait {amount} en {year}.",
        "La température était de {degrees} à {time}.",
        "Peux-tu lire {code} sans {hole} ?",
        "En {year}, {share} des enfants étaient malades.",
        '<a href="{url}">Lis ceci</a> et appelle {number} personnes.',
        "Le train part à {time} du quai {number}.",
        "Est-ce que {mail} sait que {url} est cassé ?",
    ),
}
WORDS = ("lake", "house", "blue", "north", "data", "shop", "river", "green", "test", "photo")
HOLES = ("{name}", "{0}", "%s", "%d", "%(count)s", "{{ user }}", "${total}", "{user_id}")
EMOJI = ("😀", "🎉", "👍🏽", "❤️", "👨‍👩‍👧", "🇩🇪", "☕", "🔥🔥")
Random = random.Random


def _url(r: Random) -> str:
    word = r.choice(WORDS)
    path = r.choice(("", "/", f"/{word}", f"/{word}_{r.randrange(99)}.html", f"/?q={word}&n=2"))
    start, end = r.choice(("https://", "http://", "www.")), r.choice(("com", "org", "net"))
    return f"{start}{r.choice(WORDS)}.example.{end}{path}"


def _number(r: Random) -> str:
    first, last = r.choice(((2, 12), (13, 99), (100, 9999), (10_000, 999_999)))
    return str(r.randint(first, last))


def _code(r: Random) -> str:
    word = r.choice(WORDS)
    return r.choice((f"`{word}()`", f"`{word} --{r.choice(WORDS)}`", f"{word}.txt", f"/etc/{word}.toml"))


def _amount(r: Random) -> str:
    whole = r.randrange(2, 99_999)
    return r.choice(
        (f"${whole:,}", f"€{whole}", f"${whole:,}.{r.randrange(100):02}", f"{whole} €", f"£{whole}")
    )


def _date(r: Random) -> str:
    day, month, year = r.randrange(1, 29), r.randrange(1, 13), r.randrange(1950, 2030)
    return r.choice((f"{year}-{month:02}-{day:02}", f"{month}/{day}/{year}", f"{day:02}.{month:02}.{year}"))


MAKERS: dict[str, Callable[[Random], str]] = {
    "url": _url,
    "mail": lambda r: f"{r.choice(WORDS)}.{r.choice(WORDS)}{r.randrange(9)}@{r.choice(WORDS)}.example.com",
    "amount": _amount,
    "date": _date,
    "time": lambda r: f"{r.randrange(1, 24)}:{r.randrange(60):02}",
    "number": _number,
    "year": lambda r: str(r.randrange(1900, 2030)),
    "share": lambda r: f"{r.randrange(1, 100)}%",
    "degrees": lambda r: f"{r.randrange(-20, 40)} °C",
    "hole": lambda r: r.choice(HOLES),
    "code": _code,
    "emoji": lambda r: r.choice(EMOJI),
}


def make_lines(language: str, count: int, seed: int = 17) -> Iterator[tuple[str, list[str]]]:
    """Lines of a language, each with the items that its translation must keep."""
    r = Random(f"{seed} {language}")
    for number in range(count):
        line = TEMPLATES[language][number % len(TEMPLATES[language])]
        items = [tag for tag in ("<b>", "</b>", "</a>") if tag in line]
        for name in [part.split("}")[0] for part in line.split("{")[1:]]:
            item = MAKERS[name](r)
            while item in items:
                item = MAKERS[name](r)
            line = line.replace(f"{{{name}}}", item, 1)
            items.append(item)
        yield line, items


def is_whole(source: str, text: str, items: list[str]) -> bool:
    """Whether every item is in the translation as often as in the source."""
    return all(text.count(item) == source.count(item) for item in items)


def count_whole(translations: list[Translation], made: list[tuple[str, list[str]]]) -> int:
    return sum(is_whole(line, one.text, items) for one, (line, items) in zip(translations, made, strict=True))


def measure(name: str, lines: int) -> dict[str, object]:
    """The counts of one direction."""
    model = clearhead.load(name)
    source, target = str(model.directions[0]).split("-")
    made = list(make_lines(source, lines))
    plain = model.translate([line for line, _ in made], target)
    kept = list(with_items(plain, model, target, TranslateOptions(), lines))
    whole = model.translate_document("\n\n".join(line for line, _ in made), target)
    texts, paragraphs = whole.text.split("\n\n"), whole.paragraphs
    assert len(texts) == len(paragraphs) == len(made)
    broken = [
        {"source": line, "translation": text}
        for text, (line, items) in zip(texts, made, strict=True)
        if not is_whole(line, text, items)
    ]
    return {
        "direction": str(model.directions[0]),
        "lines": len(made),
        "plain": count_whole(plain, made),
        "line": count_whole(kept, made),
        "model": sum(not any(one.repaired for one in sentences) for sentences in paragraphs) - len(broken),
        "document": len(made) - len(broken),
        "broken": broken,
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("models", nargs="*", default=["en-de", "de-en", "en-fr", "fr-en"], metavar="MODEL")
    parser.add_argument("--lines", type=int, default=500)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    results = []
    for name in options.models:
        results.append(measure(name, options.lines))
        row = {key: value for key, value in results[-1].items() if key != "broken"}
        sys.stdout.write(" ".join(f"{key} {value}" for key, value in row.items()) + "\n")
        for one in results[-1]["broken"][:5]:  # pyright: ignore[reportIndexIssue]
            sys.stdout.write(f"  {one['source']} -> {one['translation']}\n")
        sys.stdout.flush()
    if options.json:
        options.json.write_text(json.dumps(results, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()

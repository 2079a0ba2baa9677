"""Splits a paragraph into sentences by rules, for English, German and French.

The lists cover what the splitters of Moses and pySBD cover in these languages; other languages use all
three together. A library would be a further dependency for a page of rules.
"""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

Span = tuple[int, int]

ENDS, CJK_ENDS = ".!?…؟۔।", "。！？"
# A full stop, closing quotes and brackets after it, and the space before the next sentence. French puts a
# space before the closing guillemet. A private-use character stands for an emoji, which ends a sentence.
EMOJI = "\ue010"
CANDIDATE = re.compile(
    rf"(?<![{ENDS}])(?P<ends>[{ENDS}]++)"
    rf"(?P<closing>(?:[\u00a0\u202f ]?[»›]|[\"'”’“)\]*_~])*+(?:[ \u00a0]*+{EMOJI})*+)"
    rf"\s++|(?<![{CJK_ENDS}])(?P<cjk>[{CJK_ENDS}]++[」』）]*+)\s*+"
)
OPENING = "\"'“”‘„«‹»([{¿¡*_~#—–-\u00a0\u202f "
WORD_BEFORE = re.compile(r"[^\s\"'“”‘’„«»()\[\]]*$")
WORD_AFTER = re.compile(rf"[{re.escape(OPENING)}]*(?P<word>[^\W_]+(?:[’'][^\W_]+)?)?")
LONGEST_WORD = 40


@dataclass(frozen=True)
class Rules:
    """The abbreviations of a language, without their last full stop."""

    never: frozenset[str]
    """A capital after them does not start a sentence: titles, "e.g."."""
    before_number: frozenset[str]
    """A number after them does not start a sentence: "No.", months."""
    may_end: frozenset[str]
    """They may be the last word of a sentence: a common first word then starts the next one."""
    starters: frozenset[str]
    """Words that often start a sentence and seldom follow an abbreviation."""
    ordinals: bool = False
    """Whether a number with a full stop is an ordinal, as in "am 3. Oktober"."""


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


MAY_END = _words("etc Inc Ltd Co Corp Jr Sr Bros al a.m p.m A.M P.M U.S U.K U.S.A U.N D.C E.U B.C A.D")
ENGLISH = Rules(
    never=_words(
        "Mr Mrs Ms Messrs Dr Prof Rev Hon Gen Col Maj Capt Lt Sgt Cpl Adm Cmdr Gov Sen Rep Pres Supt St Mt "
        "Ft Mme Mlle vs e.g i.e viz cf eg ie approx ca incl esp Ave Blvd Rd Dept Ph.D M.D B.A M.A"
    ),
    before_number=_words(
        "No no Nos nos p pp Fig fig Figs figs Vol vol Ch ch Sec sec Eq eq Art art Nr nr Jan Feb Mar Apr Jun "
        "Jul Aug Sep Sept Oct Nov Dec Tab tab Ref ref Op op Ext ext Tel tel Max max Min min"
    ),
    may_end=MAY_END,
    starters=_words(
        "The A An This That These Those He She It We You They I His Her Its Our Your Their My There Here In "
        "On At If When While After Before But And So Then However What Why How Who Where Is Are Was Were Do "
        "Does Did Can Please Not No Yes For From As With Some Many Most All Everyone It's I'm He's "
        "She's We're They're That's"
    ),
)
GERMAN = Rules(
    never=_words(
        "Dr Prof Hr Hrn Fr Frl Dipl Ing Mag Med jur rer phil Univ St Hl Sr Jr z.B z.b d.h D.h Z.B u.a U.a "
        "i.d.R o.ä o.g s.o s.u u.U m.E z.T z.Zt v.a V.a bzw ggf vgl Vgl evtl sog sogen ca bspw insb inkl "
        "exkl einschl zzgl abzgl bzgl gem lt max min geb gest Str str Tel allg eigtl entspr gegr jmd jmdn "
        "jmdm verh urspr zzt Dres"
    ),
    before_number=_words(
        "Nr Nrn Abb Abs Art Bd Kap S Seite Tab Anm Ziff Par Jan Feb Mär Apr Jun Jul Aug Sep Sept Okt Nov "
        "Dez Lfd Kl Pos Lit Rn Rz Mo Di Mi Do Fr Sa So Max Min Mind mind"
    ),
    may_end=MAY_END | _words("usw usf dgl Mio Mrd Std Min Sek Jh Jhd Chr v.Chr n.Chr ff u.s.w M.A e.V a.D"),
    starters=_words(
        "Der Die Das Den Dem Ein Eine Einen Einem Einer Er Sie Es Wir Ich Du Ihr Man Dieser Diese Dieses "
        "Sein Seine Ihre Mein Meine Unser Unsere Aber Und Oder Doch Denn Wenn Als Da Dann Dort Hier Jetzt "
        "Heute Gestern Morgen Nach Vor Bei Mit In Im Am Auf Aus Für Zu Zum Zur Was Wer Wie Wo Warum Wann "
        "Ist Sind War Waren Hat Haben Kann Bitte Nicht Kein Keine Ja Nein So Auch Nur Alle Viele Danach "
        "Trotzdem Deshalb"
    ),
    ordinals=True,
)
FRENCH = Rules(
    never=_words(
        "M MM Mr Mme Mmes Mlle Mlles Dr Pr Me Mgr St Ste Sts Cie c.-à-d c.à.d p.ex p.e cf Cf ex i.e env apr "
        "av boul bd hab réf tél éd dir coll suiv sq"
    ),
    before_number=_words(
        "n N no No nos art Art chap Chap p pp fig Fig vol Vol t al éd janv févr avr juil sept oct nov déc "
        "Tél Max max Min min"
    ),
    may_end=MAY_END | _words("J.-C s.a S.A R.P"),
    starters=_words(
        "Le La Les L'homme Un Une Des Il Elle Ils Elles On Nous Vous Je Tu Ce Cet Cette Ces C'est C'était "
        "Son Sa Ses Mon Ma Mes Notre Nos Votre Vos Leur Leurs Mais Et Ou Donc Or Si Quand Lorsque Comme "
        "Dans En Sur Sous Après Avant Puis Ensuite Alors Ici Là Aujourd'hui Hier Demain Pour Par Avec Sans "
        "Que Qui Quoi Où Pourquoi Comment Est Oui Non Ne Pas Tous Toutes J'ai Il y Chaque Cependant"
    ),
)
RULES = {"en": ENGLISH, "de": GERMAN, "fr": FRENCH}
ANY = Rules(
    frozenset.union(*(one.never for one in RULES.values())),
    frozenset.union(*(one.before_number for one in RULES.values())),
    frozenset.union(*(one.may_end for one in RULES.values())),
    frozenset.union(*(one.starters for one in RULES.values())),
)


def sentence_spans(text: str, language: str | None = None) -> list[Span]:
    """The start and end of each sentence; only white space is between them."""
    rules = RULES.get(language or "", ANY)
    start = len(text) - len(text.lstrip())
    cuts = [start]
    for match in CANDIDATE.finditer(text):
        if match["cjk"] or _ends_sentence(text, match, cuts[-1], rules):
            cuts.append(match.end())
    ends = [*cuts[1:], len(text)]
    spans = [(first, first + len(text[first:last].rstrip())) for first, last in zip(cuts, ends, strict=True)]
    return [span for span in spans if span[0] < span[1]]


def guess_language(text: str, candidates: Sequence[str]) -> str | None:
    """The candidate whose common words are the most frequent in a text; None if there are none of them."""
    found = Counter(re.findall(r"[^\W\d_]+", text.lower()))
    counts = {
        code: sum(found[word] for word in {one.lower() for one in RULES[code].starters})
        for code in candidates
        if code in RULES
    }
    best = max(counts, key=lambda code: counts[code], default=None)
    return best if best and counts[best] else None


def split_sentences(text: str, language: str | None = None) -> list[str]:
    """The sentences of a paragraph."""
    return [text[start:end] for start, end in sentence_spans(text, language)]


def _ends_sentence(text: str, match: re.Match[str], start: int, rules: Rules) -> bool:
    """Whether a full stop, or another mark before a space, ends the sentence that began at `start`."""
    after = WORD_AFTER.match(text, match.end())
    word = (after["word"] or "") if after else ""
    if not word:
        # Other scripts, or nothing but punctuation.
        return match.end() < len(text) and not text[match.end()].islower()
    if word[0].islower():
        return False
    ends, closing = match["ends"], match["closing"]
    if ends == "…" or (len(ends) > 1 and set(ends) == {"."}):
        return word[0].isupper()
    if ends != "." or closing.strip("*_~"):
        return True
    return _stop_ends_sentence(text, match.start(), start, word, rules)


def _stop_ends_sentence(text: str, stop: int, start: int, word: str, rules: Rules) -> bool:
    """Whether a single full stop ends a sentence, by the words before and after it."""
    before = WORD_BEFORE.search(text, max(start, stop - LONGEST_WORD), stop)
    last = before[0].strip("*_~-–—/") if before else ""
    if not last:
        return True
    starts = word in rules.starters
    if last.isdecimal():
        if stop - len(last) - start < LONGEST_WORD and not text[start : stop - len(last)].strip(OPENING):
            return False  # the number of a list item
        return not rules.ordinals or len(last) > 2 or starts
    # German streets: Hauptstr. 5.
    is_before_number = last in rules.before_number or last.endswith("str")
    if is_before_number and (word[0].isdecimal() or _is_roman(word)):
        return False
    if last in rules.never:
        return False
    if last in rules.may_end:
        return starts
    if len(last) == 1 and last.isalpha():
        # An initial, as in "J. Smith"; but "So do I. He …" and "vitamin C. It …".
        return starts
    if "." in last and all(len(part) <= 2 and part.isalpha() for part in last.split(".")):
        return starts
    return True


def _is_roman(word: str) -> bool:
    return bool(word) and set(word) <= set("IVXLC")


def gaps(text: str, spans: list[Span]) -> list[str]:
    """What is before the first span, between spans, and after the last one."""
    edges = [0, *(edge for span in spans for edge in span), len(text)]
    return [text[start:end] for start, end in list(pairwise(edges))[::2]]

"""Language codes and names, and the tags that select a target language."""

from clearhead.errors import TextError, closest_match
from clearhead.text.language_names import CODES_BY_OTHER_NAME, CODES_BY_THREE_LETTERS, fold_name

# ISO 639-1, and some ISO 639-3 codes for which parallel text is widely available.
TABLE = """
aa Afar, ab Abkhazian, ae Avestan, af Afrikaans, ak Akan, am Amharic, an Aragonese, ar Arabic, as Assamese,
ast Asturian, av Avaric, ay Aymara, az Azerbaijani, ba Bashkir, bar Bavarian, be Belarusian, bg Bulgarian, bi
Bislama, bm Bambara, bn Bengali, bo Tibetan, br Breton, bs Bosnian, ca Catalan, ce Chechen, ceb Cebuano, ch
Chamorro, ckb Central Kurdish, co Corsican, cr Cree, cs Czech, cu Church Slavonic, cv Chuvash, cy Welsh, da
Danish, de German, dsb Lower Sorbian, dv Divehi, dz Dzongkha, ee Ewe, el Greek, en English, eo Esperanto, es
Spanish, et Estonian, eu Basque, fa Persian, ff Fulah, fi Finnish, fil Filipino, fj Fijian, fo Faroese, fr
French, fy Western Frisian, ga Irish, gd Scottish Gaelic, gl Galician, gn Guarani, gsw Swiss German, gu
Gujarati, gv Manx, ha Hausa, haw Hawaiian, he Hebrew, hi Hindi, ho Hiri Motu, hr Croatian, hsb Upper Sorbian,
ht Haitian Creole, hu Hungarian, hy Armenian, hz Herero, ia Interlingua, id Indonesian, ie Interlingue, ig
Igbo, ii Sichuan Yi, ik Inupiaq, io Ido, is Icelandic, it Italian, iu Inuktitut, ja Japanese, jv Javanese, ka
Georgian, kab Kabyle, kg Kongo, ki Kikuyu, kj Kuanyama, kk Kazakh, kl Kalaallisut, km Khmer, kn Kannada, ko
Korean, kr Kanuri, ks Kashmiri, ku Kurdish, kv Komi, kw Cornish, ky Kyrgyz, la Latin, lb Luxembourgish, lg
Ganda, li Limburgish, ln Lingala, lo Lao, lt Lithuanian, lu Luba-Katanga, lv Latvian, mg Malagasy, mh
Marshallese, mi Maori, mk Macedonian, ml Malayalam, mn Mongolian, mr Marathi, ms Malay, mt Maltese, my
Burmese, na Nauru, nb Norwegian Bokmål, nd North Ndebele, nds Low German, ne Nepali, ng Ndonga, nl Dutch, nn
Norwegian Nynorsk, no Norwegian, nr South Ndebele, nv Navajo, ny Chichewa, oc Occitan, oj Ojibwa, om Oromo, or
Odia, os Ossetian, pa Punjabi, pi Pali, pl Polish, ps Pashto, pt Portuguese, qu Quechua, rm Romansh, rn Rundi,
ro Romanian, ru Russian, rw Kinyarwanda, sa Sanskrit, sc Sardinian, sd Sindhi, se Northern Sami, sg Sango, si
Sinhala, sk Slovak, sl Slovenian, sm Samoan, sn Shona, so Somali, sq Albanian, sr Serbian, ss Swati, st
Southern Sotho, su Sundanese, sv Swedish, sw Swahili, szl Silesian, ta Tamil, te Telugu, tg Tajik, th Thai, ti
Tigrinya, tk Turkmen, tl Tagalog, tn Tswana, to Tongan, tok Toki Pona, tr Turkish, ts Tsonga, tt Tatar, tw
Twi, ty Tahitian, ug Uyghur, uk Ukrainian, ur Urdu, uz Uzbek, ve Venda, vi Vietnamese, vo Volapük, wa Walloon,
wo Wolof, xh Xhosa, yi Yiddish, yo Yoruba, yue Cantonese, za Zhuang, zh Chinese, zu Zulu
"""
NAMES = {
    code: name for code, _, name in (entry.partition(" ") for entry in " ".join(TABLE.split()).split(", "))
}


def language_tag(code: str) -> str:
    """The token before a source that selects the target language: '<2de>' for 'de'."""
    return f"<2{check_language(code)}>"


def check_language(code: str) -> str:
    """The code itself; raises TextError if it is unknown."""
    if code not in NAMES:
        near = closest_language(code)
        fix = f"did you mean {near} ({NAMES[near]})?" if near else "use an ISO 639-1 code such as en or de"
        raise TextError(f"language {code!r} is unknown; {fix}")
    return code


def closest_language(word: str) -> str | None:
    """The code that a wrong code or the name of a language most likely means."""
    name = word.strip().lower().replace("_", "-")
    for part in (name, name.split("-")[0]):
        if part in NAMES:
            return part
        if code := CODES_BY_THREE_LETTERS.get(part) or CODES_BY_OTHER_NAME.get(fold_name(part)):
            return code
    codes = {full.lower(): code for code, full in NAMES.items()}
    begun = (full for full in codes if len(name) > 2 and full.startswith(name))
    near = next(begun, None) or closest_match(name, codes, cutoff=0.75)
    return codes[near] if near else None

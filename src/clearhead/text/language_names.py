"""Other spellings of languages: ISO 639-2 and 639-3 codes, native names, and names in German and French."""

import unicodedata

# The codes of ISO 639-3, the bibliographic ones of ISO 639-2 (ger, fre), and for macrolanguages that of the
# usual standard language (cmn for zh).
THREE_LETTER_CODES = """
aa aar, ab abk, ae ave, af afr, ak aka, am amh, an arg, ar ara arb, as asm, av ava, ay aym, az aze azj,
ba bak, be bel, bg bul, bi bis, bm bam, bn ben, bo bod tib, br bre, bs bos, ca cat, ce che, ch cha,
co cos, cr cre, cs ces cze, cu chu, cv chv, cy cym wel, da dan, de deu ger, dv div, dz dzo, ee ewe,
el ell gre, en eng, eo epo, es spa, et est ekk, eu eus baq, fa fas per pes, ff ful, fi fin, fj fij,
fo fao, fr fra fre, fy fry, ga gle, gd gla, gl glg, gn grn, gu guj, gv glv, ha hau, he heb, hi hin,
ho hmo, hr hrv, ht hat, hu hun, hy hye arm, hz her, ia ina, id ind, ie ile, ig ibo, ii iii, ik ipk,
io ido, is isl ice, it ita, iu iku, ja jpn, jv jav, ka kat geo, kg kon, ki kik, kj kua, kk kaz, kl kal,
km khm, kn kan, ko kor, kr kau, ks kas, ku kur kmr, kv kom, kw cor, ky kir, la lat, lb ltz, lg lug,
li lim, ln lin, lo lao, lt lit, lu lub, lv lav lvs, mg mlg plt, mh mah, mi mri mao, mk mkd mac, ml mal,
mn mon khk, mr mar, ms msa may zsm, mt mlt, my mya bur, na nau, nb nob, nd nde, ne nep npi, ng ndo,
nl nld dut, nn nno, no nor, nr nbl, nv nav, ny nya, oc oci, oj oji, om orm, or ori ory, os oss, pa pan,
pi pli, pl pol, ps pus, pt por, qu que, rm roh, rn run, ro ron rum, ru rus, rw kin, sa san, sc srd,
sd snd, se sme, sg sag, si sin, sk slk slo, sl slv, sm smo, sn sna, so som, sq sqi alb, sr srp, ss ssw,
st sot, su sun, sv swe, sw swa swh, ta tam, te tel, tg tgk, th tha, ti tir, tk tuk, tl tgl, tn tsn,
to ton, tr tur, ts tso, tt tat, tw twi, ty tah, ug uig, uk ukr, ur urd, uz uzb uzn, ve ven, vi vie,
vo vol, wa wln, wo wol, xh xho, yi yid ydd, yo yor, za zha, zh zho chi cmn, zu zul
"""

# The native name first, then German and French ones, and further English ones.
OTHER_NAMES = """
ab аԥсуа/Abchasisch/abkhaze, af Afrikaans, am አማርኛ/Amharisch/amharique,
an Aragonés/Aragonesisch/aragonais, ar العربية/عربي/Arabisch/arabe, as অসমীয়া/Assamesisch/assamais,
ast Asturianu/Asturisch/asturien, az Azərbaycanca/Aserbaidschanisch/azéri/Azeri,
ba башҡортса/Baschkirisch/bachkir, bar Boarisch/Bairisch/bavarois,
be беларуская/Belarussisch/Weißrussisch/biélorusse/Belarusan, bg български/Bulgarisch/bulgare,
bn বাংলা/Bengalisch/Bangla, bo བོད་སྐད/Tibetisch/tibétain, br Brezhoneg/Bretonisch,
bs Bosanski/Bosnisch/bosniaque, ca Català/Valencià/Katalanisch/Valencian,
ce нохчийн/Tschetschenisch/tchétchène, ceb Bisaya/Sinugboanon, ckb سۆرانی/Sorani/Zentralkurdisch,
co Corsu/Korsisch/corse, cs čeština/český/česky/Tschechisch/tchèque, cv чӑвашла/Tschuwaschisch/tchouvache,
cy Cymraeg/Walisisch/gallois, da Dansk/Dänisch/danois, de Deutsch/allemand,
dsb Dolnoserbski/Niedersorbisch/bas-sorabe, dv ދިވެހި/Dhivehi/Maldivian, el Ελληνικά/Griechisch/grec,
en Englisch/anglais, eo Espéranto, es Español/Castellano/Spanisch/espagnol/Castilian,
et Eesti/Estnisch/estonien, eu Euskara/Baskisch, fa فارسی/Persisch/persan/Farsi,
fi Suomi/Finnisch/finnois, fil Pilipino, fo Føroyskt/Färöisch/féroïen, fr Français/Französisch,
fy Frysk/Westfriesisch/frison/Frisian, ga Gaeilge/Irisch/irlandais, gd Gàidhlig/Schottisch-Gälisch,
gl Galego/Galicisch/Galizisch/galicien, gn Avañe'ẽ/Guaraní,
gsw Schwiizerdütsch/Schwyzerdütsch/Schweizerdeutsch/Alemannisch/Alemannic, gu ગુજરાતી, gv Gaelg,
ha Haussa/haoussa, haw ʻŌlelo Hawaiʻi/Hawaiianisch/hawaïen, he עברית/Hebräisch/hébreu, hi हिन्दी/हिंदी,
hr Hrvatski/Kroatisch/croate, hsb Hornjoserbsce/Obersorbisch/haut-sorabe,
ht Kreyòl ayisyen/Haitianisch/créole haïtien/Haitian, hu Magyar/Ungarisch/hongrois,
hy Հայերեն/Armenisch/arménien, id Bahasa Indonesia/Indonesisch/indonésien,
is Íslenska/Isländisch/islandais, it Italiano/Italienisch/italien, ja 日本語/Japanisch/japonais,
jv Basa Jawa/Javanisch/javanais, ka ქართული/Georgisch/géorgien, kab Taqbaylit/Kabylisch,
kk қазақша/қазақ тілі/Kasachisch, kl Grönländisch/groenlandais/Greenlandic, km ភាសាខ្មែរ/ខ្មែរ, kn ಕನ್ನಡ,
ko 한국어/조선말/Koreanisch/coréen, ks Kaschmirisch, ku Kurdî/Kurdisch/kurde/Kurmanji,
kw Kernewek/Kornisch/cornique, ky кыргызча/Kirgisisch/kirghiz/Kirghiz, la Latina/Lateinisch/Latein,
lb Lëtzebuergesch/Luxemburgisch/luxembourgeois, lg Luganda, li Limburgs/Limburgisch/limbourgeois,
lo ພາສາລາວ/Laotisch/laotien, lt Lietuvių/Litauisch/lituanien, lv Latviešu/Lettisch/letton,
mg Madagassisch/malgache, mi te reo Māori, mk македонски/Mazedonisch/Makedonisch/macédonien, ml മലയാളം,
mn монгол/Mongolisch, mr मराठी/marathe, ms Bahasa Melayu/Malaiisch/malais, mt Malti/Maltesisch/maltais,
my မြန်မာ/မြန်မာဘာသာ/Birmanisch/Burmesisch/birman/Myanmar, nb Bokmål/Norsk bokmål,
nds Plattdüütsch/Plattdeutsch/Niederdeutsch/bas allemand/Low Saxon, ne नेपाली/Nepalesisch/népalais,
nl Nederlands/Niederländisch/Holländisch/néerlandais/Flemish, nn Nynorsk/Norsk nynorsk,
no Norsk/Norwegisch/norvégien, nv Diné bizaad/Navaho, ny Chewa/Nyanja, oc Okzitanisch, om Afaan Oromoo,
or ଓଡ଼ିଆ/Oriya, os ирон/Ossetisch/ossète/Ossetic, pa ਪੰਜਾਬੀ/Panjabi/pendjabi, pl Polski/Polnisch/polonais,
ps پښتو/Paschtu/Paschtunisch/pachto/Pushto, pt Português/Portugiesisch/portugais, qu Runasimi/Ketschua,
rm Rumantsch/Rätoromanisch/Bündnerromanisch/romanche, rn Kirundi, ro Română/Rumänisch/roumain,
ru русский/Russisch/russe, rw Ikinyarwanda, sa संस्कृतम्, sc Sardu/Sardisch/sarde, sd سنڌي,
se Davvisámegiella/Nordsamisch/same du Nord, si සිංහල/Singhalesisch/singhalais/Sinhalese,
sk slovenčina/slovensky/Slowakisch/slovaque, sl slovenščina/Slowenisch/slovène/Slovene, so Soomaali,
sq Shqip/Albanisch/albanais, sr српски/srpski/Serbisch/serbe, st Sesotho/Sotho, su Basa Sunda,
sv Svenska/Schwedisch/suédois, sw Kiswahili/Suaheli, szl ślōnski/Schlesisch/silésien,
ta தமிழ்/Tamilisch/tamoul, te తెలుగు/télougou, tg тоҷикӣ/Tadschikisch/tadjik, th ไทย/ภาษาไทย/Thailändisch,
ti ትግርኛ, tk Türkmen/Turkmenisch, tl Wikang Tagalog, tn Setswana, tr Türkçe/Türkisch/turc,
tt татарча/Tatarisch, ug ئۇيغۇرچە/Uigurisch/ouïghour/Uighur, uk українська/Ukrainisch/ukrainien,
ur اردو/ourdou, uz Oʻzbekcha/Usbekisch/ouzbek, vi Tiếng Việt/Vietnamesisch/vietnamien,
wa Walon/Wallonisch/wallon, xh isiXhosa, yi ייִדיש/Jiddisch, yo Yorùbá,
yue 粵語/粤语/廣東話/Kantonesisch/cantonais, zh 中文/汉语/漢語/Chinesisch/chinois/Mandarin,
zu isiZulu/zoulou
"""


def fold_name(name: str) -> str:
    """A name for comparisons: case and accents do not matter."""
    letters = unicodedata.normalize("NFKD", name.strip().casefold())
    return "".join(letter for letter in letters if not unicodedata.combining(letter))


def _entries(table: str) -> list[tuple[str, str]]:
    entries = " ".join(table.split()).split(", ")
    return [(code, others) for code, _, others in (entry.partition(" ") for entry in entries)]


CODES_BY_THREE_LETTERS = {
    other: code for code, others in _entries(THREE_LETTER_CODES) for other in others.split()
}
CODES_BY_OTHER_NAME = {
    fold_name(name): code for code, names in _entries(OTHER_NAMES) for name in names.split("/")
}

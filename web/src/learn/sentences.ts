// The lectures' sentences, in the languages of the packaged models.

interface Sentences {
  windows: string;
  computer: string;
  cat: string;
  /** The ambiguous word, or the closest to one. */
  word: string;
}

const ENGLISH: Sentences = {
  windows: "I closed the windows.",
  computer: "I bought a new windows for my computer.",
  cat: "Your cat is a lovely cat.",
  word: "windows",
};

const SENTENCES: Record<string, Sentences> = {
  de: {
    windows: "Ich habe die Fenster geschlossen.",
    computer: "Ich habe zwei neue Fenster auf meinem Computer.",
    cat: "Deine Katze ist eine schöne Katze.",
    word: "Fenster",
  },
  fr: {
    windows: "J'ai fermé les fenêtres.",
    computer: "J'ai deux nouvelles fenêtres sur mon ordinateur.",
    cat: "Ton chat est un joli chat.",
    word: "fenêtres",
  },
};

/** For the source language, which a model's name begins with, as in `de-en`. */
export const sentencesFor = (model: string): Sentences => SENTENCES[/^([a-z]{2})-/.exec(model)?.[1] ?? "en"] ?? ENGLISH;

export const PROMPT = "Once upon a time";

// The guided path, in the order of the lectures and with their sentences; every number beside it is the model's own.

import type { Manifest, Summaries } from "../contract";
import type { Selected } from "../selection.svelte";
import { PROMPT, sentencesFor } from "./sentences";

export interface Lesson {
  title: string;
  view: string;
  /** Which of the lectures' sentences it is about. */
  text: "windows" | "computer" | "cat" | "prompt";
  /** A sentence of the lectures. */
  quote?: string;
  says: string[];
  /** Arithmetic to follow with a pencil. */
  worked?: string[];
  look: string[];
  pick?: Partial<Selected>;
  /** What to choose once the heads are measured. */
  settle?: (trace: Manifest, summaries: Summaries) => Partial<Selected>;
}

/** The head of an attention that is clearest in a role. */
function clearest(attention: string, role: string) {
  return (_: Manifest, summaries: Summaries): Partial<Selected> => {
    const heads = [...(summaries.attentions[attention]?.heads ?? [])].sort((a, b) => (b.roles[role] ?? 0) - (a.roles[role] ?? 0));
    return heads[0] ? { attention, layer: heads[0].layer, head: heads[0].head } : {};
  };
}

const bestAligner = (_: Manifest, summaries: Summaries): Partial<Selected> => {
  const best = summaries.aligners?.ranked[0];
  return best ? { attention: "cross", layer: best.layer, head: best.head } : {};
};

/** What the two kinds of model share; they differ in sentence, stack and order. */
const SIMILARITY = {
  title: "Similarity: the dot product",
  quote: "How can we measure the similarity between words embedding? The dot product!",
  says: [
    "Two vectors that point the same way have a large product; two at right angles have none. That is all a head needs to ask “does this word concern me?”.",
    "On the right, the same sum with the model’s numbers: the query of one word times the key of another, number by number.",
  ],
  worked: ["(1, 4) · (0, 3) = 1·0 + 4·3 = 12", "(1, 4) · (3, 0) = 1·3 + 4·0 = 3"],
  look: ["Matrix 1 holds every such product. Choose a cell: below the table, the strips show which of its terms made it large."],
  view: "softmax",
};

const SCALING = {
  title: "Scaling: ÷ √d",
  quote: "What to do when we have embeddings that has more than 1000 values?",
  says: [
    "A sum of many products grows with their number, and softmax would then choose one word and forget the rest. So the product is divided by the square root of the vector’s length.",
    "The lecture’s example has two dimensions: closed = (1, 1), windows = (2, 0).",
  ],
  worked: ["closed · windows = 1·2 + 1·0 = 2", "2 ÷ √2 = 1.414"],
  look: ["Matrices 1 and 2 have the same picture but another scale: hover the same cell in both."],
  view: "softmax",
};

const SOFTMAX = {
  title: "Softmax: shares that add up to 1",
  quote: "Want coefficients to add to 1. Need coefficients to be positive!",
  says: [
    "Scores may be negative, shares may not. eˣ makes every number positive and keeps their order; dividing by the sum makes them shares.",
  ],
  worked: ["e¹ ÷ (e¹ + e⁰·⁷¹) = 0.57 Orange, 0.43 Apple", "e¹ ÷ (e¹ + e⁻¹) = 0.88 Orange, 0.12 Motorcycle"],
  look: ["The table is one row of the model, from q · k to α. The last line says that its weights add up to 1."],
  view: "softmax",
};

const TRANSLATOR: Lesson[] = [
  {
    title: "A sentence becomes numbers",
    view: "tokens",
    text: "windows",
    quote: "We want to turn words into vectors for computers to process.",
    says: [
      "First the text is cut into pieces that the model knows. Frequent words are one piece; rare ones are built of several. Each piece has a number, its id.",
    ],
    look: [
      "Write something of your own and see how it is cut. YOUR CAT IS A LOVELY CAT, in capitals, falls into many small pieces: the model has rarely seen such words.",
    ],
  },
  {
    title: "Words to vectors",
    view: "embedding",
    text: "windows",
    quote: "We want close words in meaning to have a close representation as vectors!",
    says: [
      "Each id picks one row of a large matrix: the word’s embedding. Nobody wrote these numbers; training found them.",
      "The map above is the whole model. We have walked through its first two boxes.",
    ],
    look: [
      "Choose another word: its strip of colours changes.",
      "The square below compares all words of the sentence with each other.",
    ],
    pick: { key: 4 },
  },
  {
    title: "One word, two meanings",
    view: "vectors",
    text: "computer",
    quote:
      "Where to classify the word “windows”? Is it closer to words that are related to house or that are related to technology?",
    says: [
      "“I closed the windows” and “I bought a new windows for my computer”. An embedding cannot tell them apart: it is the same row of the same matrix. The solution depends on the context.",
      "Attention injects it: layer by layer the two vectors part.",
    ],
    look: [
      "The curve starts at 1, the same vector in both. Where does it fall?",
      "The lists say which words of the vocabulary each vector is nearest to.",
    ],
  },
  { ...SIMILARITY, text: "windows", pick: { attention: "encoder", layer: 0, head: 0, query: 4, key: 2 } },
  { ...SCALING, text: "windows", pick: { attention: "encoder", layer: 0, head: 0, query: 4, key: 2 } },
  { ...SOFTMAX, text: "windows", pick: { attention: "encoder", layer: 0, head: 0, query: 4, key: 2 } },
  {
    title: "Queries, keys, values",
    view: "projections",
    text: "windows",
    quote: "Each word of the sentence is a query and we use it to seek an entry that is defined by a key and a value.",
    says: [
      "“But where are the parameters?” Here: each head has three matrices of its own. The word’s vector times the first is its query, times the second its key, times the third its value.",
      "This is the only place where attention learns anything.",
    ],
    look: [
      "One number of one query, as a sum of products that you could check by hand.",
      "Switch between Q, K and V: the same word, three vectors.",
    ],
    pick: { attention: "encoder", layer: 0, head: 0, query: 4 },
  },
  {
    title: "One head looks",
    view: "head",
    text: "cat",
    quote: "Self-Attention allows the model to relate words to each other.",
    says: [
      "The lecture shows this square for YOUR CAT IS A LOVELY CAT and notes: “all values are random.” Here they are not: it is a trained head. Each row says where one word looks; each row adds up to 1.",
    ],
    look: [
      "“Cat” stands there twice. Do the two rows differ? Same word, another place and other neighbours.",
      "Switch to lines, and hover a word.",
    ],
    pick: { attention: "encoder", layer: 1, head: 0, query: 2, key: 2 },
    settle: clearest("encoder", "previous"),
  },
  {
    title: "Many heads",
    view: "heads",
    text: "cat",
    quote: "MultiHead(Q, K, V) = Concat(head₁, …, headₕ) Wᴼ",
    says: [
      "One head can look at one thing. So every layer has several, each with its own matrices, and joins what they found.",
      "Some do something that can be named: look at the word before, at themselves, rest on the first token. The tags are measured.",
    ],
    look: ["Sort by entropy: the sharpest heads come first.", "Choose a head to see it large."],
    pick: { attention: "encoder" },
  },
  {
    title: "Masks: no peeking",
    view: "softmax",
    text: "cat",
    quote: "The tokens at a certain position must depend on previous tokens only. We don’t want our model to see future tokens.",
    says: [
      "The decoder writes from left to right. If it could look at the words to come while it learns, it would learn to copy them. So their scores become −∞ before the softmax, and e to that power is 0.",
    ],
    look: [
      "The hatched triangle in matrices 3 and 4. Masked is not small: it is forbidden.",
      "In the table, masked keys have −∞ and weight 0.",
    ],
    pick: { attention: "decoder", layer: 0, head: 0, query: 3, key: 1 },
  },
  {
    title: "Positions",
    view: "embedding",
    text: "cat",
    quote: "The position of the word may not [be] captured properly.",
    says: [
      "Attention alone is blind to order: shuffle the words and every score stays. So each place adds a pattern of its own to the vector, here of waves.",
      "The first “cat” and the second have the same embedding, but not the same sum.",
    ],
    look: [
      "Choose the two cats in turn: strip 1 is equal, strip 2 is not.",
      "The last curve: places near each other have similar patterns.",
    ],
    pick: { key: 2 },
  },
  {
    title: "The encoder",
    view: "residual",
    text: "cat",
    quote:
      "The encoder outputs, for each word, a vector that not only captures its meaning or the position, but also its interaction with other words.",
    says: [
      "A layer is an attention and a feed-forward, each of which adds to the stream of its word. The same structure is repeated again and again.",
      "Attention brings in what other words know; the feed-forward works on it, at each place alone.",
    ],
    look: [
      "Which sub-layers add most? Is the first layer different from the last?",
      "Choose another word: do all of them grow alike?",
    ],
    pick: { attention: "encoder", key: 2 },
  },
  {
    title: "The decoder",
    view: "head",
    text: "windows",
    quote: "We prepend the <SOS> token at the beginning. That’s why the paper says that the decoder input is shifted right.",
    says: [
      "The decoder reads what it has written so far, from its start sign on, and is asked for the next token at every place. Its self-attention is masked; then it looks at the source.",
    ],
    look: ["Every row ends at its own word: nothing to the right of it."],
    pick: { attention: "decoder", layer: 0, head: 0, query: 3, key: 1 },
    settle: clearest("decoder", "previous"),
  },
  {
    title: "Cross-attention",
    view: "cross",
    text: "windows",
    quote: "On each step of decoding, directly connect to the encoder, and focus on a particular part of the source sequence.",
    says: [
      "Queries from the target, keys and values from the source. Nobody told the model which word belongs to which, and yet some heads find it.",
      "German puts the verb last; follow the curves to see the model look back.",
    ],
    look: ["Hover the German words one after the other.", "The list ranks heads by how well they align."],
    settle: bestAligner,
    pick: { attention: "cross", query: 3 },
  },
  {
    title: "Training: all places at once",
    view: "logits",
    text: "windows",
    quote: "It all happens in one time step! … Cross Entropy Loss",
    says: [
      "In training the right translation is known. All its places are asked at once for their next token; the loss is −log of the probability that the right one got, averaged. The gradient of that number moves every matrix you have seen.",
    ],
    worked: ["loss at a place = −log p(the token that comes)"],
    look: [
      "Choose a place: what comes next is orange. Its bar is long where the model is sure.",
      "The logit lens below: from which layer on does the model know?",
    ],
    pick: { place: 1 },
  },
  {
    title: "Inference: one token at a time",
    view: "generate",
    text: "windows",
    quote:
      "We select a token from the vocabulary corresponding to the position of the token with the maximum value. … Append the previously output word to the decoder input.",
    says: [
      "When it translates, the model has only its own words to go on. It writes one token, reads it, and writes the next, until it writes the end.",
    ],
    look: ["Press “Next token” until the end.", "Choose another token at some step: how does the model go on?"],
  },
  {
    title: "Beam search",
    view: "beam",
    text: "computer",
    quote:
      "Rather than focusing only on the next word in a sequence, it looks at the probability of a larger set of tokens as a whole.",
    says: [
      "The best first word need not lead to the best sentence. A beam keeps several beginnings alive and drops those that fall behind.",
    ],
    look: [
      "The orange path is the output. Choose a dropped branch: it says why.",
      "Force a path, and the search goes on from there.",
    ],
  },
];

const GPT: Lesson[] = [
  {
    title: "A prompt becomes tokens",
    view: "tokens",
    text: "prompt",
    quote: "The text is converted into token vectors: Once upon a time [12805, 5304, 264, 892]",
    says: [
      "The lecture’s GPT gives these four words the ids 12805, 5304, 264 and 892. This model has a vocabulary of its own, so its pieces and ids are others; the idea is the same.",
    ],
    look: ["Write on: “Once upon a time, in a world where magic flowed as freely as the rivers”."],
  },
  {
    title: "Embedding and position",
    view: "embedding",
    text: "prompt",
    quote:
      "Sequence of integers is mapped to a set of embedding vectors by an embedding matrix. Positional encoding is added to the embedding.",
    says: [
      "Each id picks a row of the matrix; its place is told to it. From here on there is one vector for every token: the residual stream.",
    ],
    worked: ["ψ′(wₜ) = ψ(wₜ) + pₜ"],
    look: ["Choose a token: its strips change, and with them their sum."],
  },
  { ...SIMILARITY, text: "prompt", pick: { attention: "decoder", layer: 0, head: 0, query: 3, key: 1 } },
  { ...SCALING, text: "prompt", pick: { attention: "decoder", layer: 0, head: 0, query: 3, key: 1 } },
  { ...SOFTMAX, text: "prompt", pick: { attention: "decoder", layer: 0, head: 0, query: 3, key: 1 } },
  {
    title: "Queries, keys, values",
    view: "projections",
    text: "prompt",
    quote: "If q is most similar to key i, then we use value vᵢ.",
    says: [
      "Each head multiplies the stream by three matrices. The query asks, the keys are asked, and the values of those that match are mixed.",
    ],
    look: ["One number of one query as a sum that you could check by hand."],
    pick: { attention: "decoder", layer: 0, head: 0, query: 3, key: 1 },
  },
  {
    title: "Only backwards: the mask",
    view: "head",
    text: "prompt",
    quote: "The tokens at a certain position must depend on previous tokens only.",
    says: [
      "A language model foretells what comes next. Were it allowed to look there, it would have nothing to learn. Everything to the right of the diagonal is forbidden.",
    ],
    look: ["The hatched triangle. The first token can only look at itself."],
    pick: { attention: "decoder", query: 3, key: 0 },
    settle: clearest("decoder", "previous"),
  },
  {
    title: "Many heads, many layers",
    view: "heads",
    text: "prompt",
    quote: "In practice, there are multiple heads running in parallel. … This structure is repeated many times.",
    says: ["Each thumbnail is a head that looks in its own way. The tags are measured on this text."],
    look: ["Which heads look at the token before? Which rest on the first?"],
  },
  {
    title: "The residual stream",
    view: "residual",
    text: "prompt",
    quote: "This residual stream is then passed through a ‘self attention + FF layer block’.",
    says: [
      "Every block adds something to the stream and replaces nothing. At the end the vector of the last token holds what the model expects next.",
    ],
    look: ["How the stream grows, and who adds most."],
  },
  {
    title: "The next token",
    view: "logits",
    text: "prompt",
    quote: "Maps from embedding space to logits for the token space.",
    says: [
      "The last vector is compared with every token of the vocabulary. Softmax makes probabilities of these logits: of all of them, not only of those shown.",
    ],
    look: [
      "Choose the last place: what could come after “time”?",
      "Raise the temperature, and unlikely tokens gain. Lower top-p, and they are cut.",
    ],
    pick: { place: 999 },
  },
  {
    title: "Generate",
    view: "generate",
    text: "prompt",
    quote:
      "At its simplest, the model’s aim is now to predict the next word in a sequence and do this repeatedly until the output is complete.",
    says: ["Draw a token, append it, go on. Keys and values of what was read are kept, so that each step costs one token only."],
    look: ["Press “Next token” and watch the cache fill.", "Take another token than the model did."],
  },
];

export const textOf = (lesson: Lesson, model: string): string =>
  lesson.text === "prompt" ? PROMPT : sentencesFor(model)[lesson.text];

export const lessonsFor = (kind: "translator" | "gpt"): Lesson[] => (kind === "gpt" ? GPT : TRANSLATOR);

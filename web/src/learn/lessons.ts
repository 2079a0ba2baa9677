// The guided tour, in the order of the lectures and with their sentences.

import type { Manifest, Summaries } from "../contract";
import type { Selected } from "../selection.svelte";
import { PROMPT, sentencesFor } from "./sentences";

export interface Lesson {
  title: string;
  view: string;
  /** Which of the lectures' sentences it uses. */
  text: "windows" | "computer" | "cat" | "prompt";
  /** A quote from the lectures. */
  quote?: string;
  says: string[];
  /** A worked example. */
  worked?: string[];
  look: string[];
  pick?: Partial<Selected>;
  /** The selection once the heads are measured. */
  refine?: (trace: Manifest, summaries: Summaries) => Partial<Selected>;
}

/** The head of an attention with the clearest role. */
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

/** Lessons that both kinds of model share. */
const SIMILARITY = {
  title: "Similarity: the dot product",
  quote: "How can we measure the similarity between words embedding? The dot product!",
  says: [
    "Two vectors that point the same way have a large dot product; at right angles it is zero. That is all a head needs to find out whether one word matters to another.",
    "On the right you see the same sum with the model’s numbers: the query of one token times the key of another, term by term.",
  ],
  worked: ["(1, 4) · (0, 3) = 1·0 + 4·3 = 12", "(1, 4) · (3, 0) = 1·3 + 4·0 = 3"],
  look: ["Matrix 1 holds every such product. Click a cell: the strips below the table show which terms made it large."],
  view: "softmax",
};

const SCALING = {
  title: "Scaling: ÷ √d",
  quote: "What to do when we have embeddings that has more than 1000 values?",
  says: [
    "A sum of many products grows with their number, and softmax would then pick one word and ignore the rest. So the product is divided by √d, where d is the number of dimensions of a head.",
    "The lecture’s example has two dimensions: closed = (1, 1), windows = (2, 0).",
  ],
  worked: ["closed · windows = 1·2 + 1·0 = 2", "2 ÷ √2 = 1.414"],
  look: ["Matrices 1 and 2 look the same but have different scales. Hover over the same cell in both."],
  view: "softmax",
};

const SOFTMAX = {
  title: "Softmax: weights that sum to 1",
  quote: "Want coefficients to add to 1. Need coefficients to be positive!",
  says: [
    "Scores can be negative, weights cannot. eˣ makes every number positive and keeps the order; dividing by the sum makes them add up to 1.",
  ],
  worked: ["e¹ ÷ (e¹ + e⁰·⁷¹) = 0.57 Orange, 0.43 Apple", "e¹ ÷ (e¹ + e⁻¹) = 0.88 Orange, 0.12 Motorcycle"],
  look: ["The table shows one row of the model, from q · k to α. The last line shows that its weights sum to 1."],
  view: "softmax",
};

const TRANSLATOR: Lesson[] = [
  {
    title: "A sentence becomes numbers",
    view: "tokens",
    text: "windows",
    quote: "We want to turn words into vectors for computers to process.",
    says: [
      "First the text is split into tokens from the model’s vocabulary. A frequent word is one token; a rare word is made of several. Each token has a number, its id.",
    ],
    look: [
      "Type your own text and see how it is split. YOUR CAT IS A LOVELY CAT, in capitals, becomes many small tokens: the model has rarely seen such words.",
    ],
  },
  {
    title: "Words to vectors",
    view: "embedding",
    text: "windows",
    quote: "We want close words in meaning to have a close representation as vectors!",
    says: [
      "Each id selects one row of a large matrix: the token’s embedding. These numbers were learned in training.",
      "The map above shows the whole model. You have now seen its first two boxes.",
    ],
    look: [
      "Click another token: its coloured strip changes.",
      "The square below compares all tokens of the sentence with each other.",
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
      "“I closed the windows” and “I bought a new windows for my computer”. The embedding cannot tell them apart: it is the same row of the same matrix. The meaning depends on the context.",
      "Attention adds the context: layer by layer, the two vectors move apart.",
    ],
    look: [
      "The curve starts at 1: the same vector in both texts. Where does it fall?",
      "The lists show which tokens of the vocabulary are nearest to each vector.",
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
      "“But where are the parameters?” Here: each head has three matrices. They turn a token’s vector into its query, its key and its value.",
      "Together with the matrix that joins the heads, they hold nearly all of attention’s parameters.",
    ],
    look: [
      "You see one number of one query, as a sum of products that you could check by hand.",
      "Switch between Q, K and V: the same token, three vectors.",
    ],
    pick: { attention: "encoder", layer: 0, head: 0, query: 4 },
  },
  {
    title: "One head at work",
    view: "head",
    text: "cat",
    quote: "Self-Attention allows the model to relate words to each other.",
    says: [
      "The lecture shows this matrix for YOUR CAT IS A LOVELY CAT and notes: “all values are random.” Here they come from a trained head. Each row shows what one token attends to, and sums to 1.",
    ],
    look: [
      "“Cat” occurs twice. Do the two rows differ? Same word, different position and neighbours.",
      "Switch to lines and hover over a token.",
    ],
    pick: { attention: "encoder", layer: 1, head: 0, query: 2, key: 2 },
    refine: clearest("encoder", "previous"),
  },
  {
    title: "Many heads",
    view: "heads",
    text: "cat",
    quote: "MultiHead(Q, K, V) = Concat(head₁, …, headₕ) Wᴼ",
    says: [
      "One head has one pattern. So every layer has several heads, each with its own matrices, and combines their outputs.",
      "Some heads have a clear role: they attend to the previous token, to the token itself or to the first token. The tags are measured.",
    ],
    look: ["Sort by entropy: the sharpest heads come first.", "Click a head to enlarge it."],
    pick: { attention: "encoder" },
  },
  {
    title: "The mask: no peeking",
    view: "softmax",
    text: "cat",
    quote: "The tokens at a certain position must depend on previous tokens only. We don’t want our model to see future tokens.",
    says: [
      "The decoder generates from left to right. If it saw the following words in training, it would learn to copy them. So their scores are set to −∞ before the softmax, which makes their weights 0.",
    ],
    look: [
      "See the hatched triangle in matrices 3 and 4. Masked is not the same as small.",
      "In the table, masked keys have score −∞ and weight 0.",
    ],
    pick: { attention: "decoder", layer: 0, head: 0, query: 3, key: 1 },
  },
  {
    title: "Positions",
    view: "embedding",
    text: "cat",
    quote: "The position of the word may not [be] captured properly.",
    says: [
      "Attention alone ignores order: if you shuffle the words, every score stays the same. So the model adds a different pattern at each position, here made of waves.",
      "Both “cats” have the same embedding, but not the same sum.",
    ],
    look: [
      "Click the two cats in turn: strip 1 is the same, strip 2 is not.",
      "The last curve shows that nearby positions have similar patterns.",
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
      "A layer consists of attention and a feed-forward network. Each adds to the residual stream of every token. The same structure repeats in every layer.",
      "Attention brings in information from other tokens; the feed-forward network processes each position on its own.",
    ],
    look: [
      "Which sub-layers add most? Does the first layer differ from the last?",
      "Click another token: do all of them grow the same way?",
    ],
    pick: { attention: "encoder", key: 2 },
  },
  {
    title: "The decoder",
    view: "head",
    text: "windows",
    quote: "We prepend the <SOS> token at the beginning. That’s why the paper says that the decoder input is shifted right.",
    says: [
      "The decoder reads its output so far, beginning with the start token, and predicts the next token at every position. Its self-attention is masked; then it attends to the source.",
    ],
    look: ["Every row ends at its own token: everything to the right is masked."],
    pick: { attention: "decoder", layer: 0, head: 0, query: 3, key: 1 },
    refine: clearest("decoder", "previous"),
  },
  {
    title: "Cross-attention",
    view: "cross",
    text: "windows",
    quote: "On each step of decoding, directly connect to the encoder, and focus on a particular part of the source sequence.",
    says: [
      "Queries come from the target, keys and values from the source. The training data does not say which word belongs to which, yet some heads find out.",
      "German often puts the verb last; follow the curves to see where the model looks.",
    ],
    look: ["Hover over the German words one by one.", "The list ranks the heads as aligners."],
    refine: bestAligner,
    pick: { attention: "cross", query: 3 },
  },
  {
    title: "Training: all positions at once",
    view: "logits",
    text: "windows",
    quote: "It all happens in one time step! … Cross Entropy Loss",
    says: [
      "In training the correct translation is known. The model predicts the next token at all its positions at once; the loss is the mean of −log p(correct token). The gradient of the loss updates every matrix you have seen.",
    ],
    worked: ["loss at a position = −log p(next token)"],
    look: [
      "Click a position: the actual next token is orange. Its bar is long where the model is sure.",
      "In the logit lens below: from which layer on does the model know the answer?",
    ],
    pick: { position: 1 },
  },
  {
    title: "Inference: one token at a time",
    view: "generate",
    text: "windows",
    quote:
      "We select a token from the vocabulary corresponding to the position of the token with the maximum value. … Append the previously output word to the decoder input.",
    says: [
      "At inference the model has only its own output to continue. It generates one token, reads it, and generates the next, until it generates the end token.",
    ],
    look: ["Click “Next token” until the end.", "Take another token at some step: how does the model continue?"],
  },
  {
    title: "Beam search",
    view: "beam",
    text: "computer",
    quote:
      "Rather than focusing only on the next word in a sequence, it looks at the probability of a larger set of tokens as a whole.",
    says: [
      "The best first word need not lead to the best sentence. Beam search keeps several hypotheses and drops those that fall behind.",
    ],
    look: [
      "The orange path is the output. Click a dropped branch to see why it was dropped.",
      "Force a path, and the search continues from there.",
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
      "The lecture’s GPT gives these four words the ids 12805, 5304, 264 and 892. This model has a different vocabulary, so its tokens and ids differ; the idea is the same.",
    ],
    look: ["Continue typing: “Once upon a time, in a world where magic flowed as freely as the rivers”."],
  },
  {
    title: "Embedding and position",
    view: "embedding",
    text: "prompt",
    quote:
      "Sequence of integers is mapped to a set of embedding vectors by an embedding matrix. Positional encoding is added to the embedding.",
    says: [
      "Each id selects a row of the matrix, and the model is given its position. From here on there is one vector per token: the residual stream.",
    ],
    worked: ["ψ′(wₜ) = ψ(wₜ) + pₜ"],
    look: ["Click a token: its strips change, and so does their sum."],
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
      "Each head multiplies the stream by three matrices. The query is compared with the keys, and the values are averaged by how well their keys match.",
    ],
    look: ["You see one number of one query as a sum that you could check by hand."],
    pick: { attention: "decoder", layer: 0, head: 0, query: 3, key: 1 },
  },
  {
    title: "Only backwards: the mask",
    view: "head",
    text: "prompt",
    quote: "The tokens at a certain position must depend on previous tokens only.",
    says: [
      "A language model predicts what comes next. If it could see that, it would have nothing to learn. So everything to the right of the diagonal is masked.",
    ],
    look: ["See the hatched triangle: the first token can only attend to itself."],
    pick: { attention: "decoder", query: 3, key: 0 },
    refine: clearest("decoder", "previous"),
  },
  {
    title: "Many heads, many layers",
    view: "heads",
    text: "prompt",
    quote: "In practice, there are multiple heads running in parallel. … This structure is repeated many times.",
    says: ["Each thumbnail is one head with its own pattern. The tags are measured on this text."],
    look: ["Which heads attend to the previous token? Which to the first?"],
  },
  {
    title: "The residual stream",
    view: "residual",
    text: "prompt",
    quote: "This residual stream is then passed through a ‘self attention + FF layer block’.",
    says: ["Every block adds to the stream. At the end, the vector of the last token predicts what comes next."],
    look: ["How does the stream grow, and which sub-layer adds most?"],
  },
  {
    title: "The next token",
    view: "logits",
    text: "prompt",
    quote: "Maps from embedding space to logits for the token space.",
    says: [
      "The last vector is compared with every token of the vocabulary. Softmax turns all these logits into probabilities, not only those shown.",
    ],
    look: [
      "Click the last position: what could come after “time”?",
      "Raise the temperature: unlikely tokens gain. Lower top-p: they are filtered out.",
    ],
    pick: { position: 999 },
  },
  {
    title: "Generate",
    view: "generate",
    text: "prompt",
    quote:
      "At its simplest, the model’s aim is now to predict the next word in a sequence and do this repeatedly until the output is complete.",
    says: [
      "Sample a token, append it, repeat. The keys and values of earlier tokens are cached, so each step processes only one token.",
    ],
    look: ["Click “Next token” and watch the cache fill.", "Take a different token than the model did."],
  },
];

export const textOf = (lesson: Lesson, model: string): string =>
  lesson.text === "prompt" ? PROMPT : sentencesFor(model)[lesson.text];

export const lessonsFor = (kind: string): Lesson[] => ({ gpt: GPT, translator: TRANSLATOR })[kind] ?? [];

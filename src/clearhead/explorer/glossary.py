"""The terms that the page explains in tooltips, each with its formula."""

GLOSSARY: dict[str, dict[str, str]] = {
    "query": {
        "term": "query (Q)",
        "formula": "q = x · W_Q",
        "meaning": "What a position looks for. Its dot product with each key says how well they match.",
    },
    "key": {
        "term": "key (K)",
        "formula": "k = x · W_K",
        "meaning": "What a position can be found by. Queries are compared with it.",
    },
    "value": {
        "term": "value (V)",
        "formula": "v = x · W_V",
        "meaning": "What a position passes on to the queries that attend to it.",
    },
    "weight": {
        "term": "attention weight (α)",
        "formula": "α = softmax(q · k ÷ √d)",
        "meaning": "The share of a key's value in what a query reads. The weights of one query sum to 1.",
    },
    "softmax": {
        "term": "softmax",
        "formula": "pᵢ = exp(xᵢ) ÷ Σ exp(xⱼ)",
        "meaning": "Turns numbers into positive ones that sum to 1; the largest gets the largest share.",
    },
    "entropy": {
        "term": "entropy",
        "formula": "H = −Σ p · log₂ p",
        "meaning": "How spread out a distribution is, in bits: 0 if one is certain, log₂ n if n are equal.",
    },
    "logit": {
        "term": "logit",
        "formula": "logit = state · row of the readout",
        "meaning": "The score of one token of the vocabulary. Softmax turns all logits into probabilities.",
    },
    "norm": {
        "term": "norm",
        "formula": "(x − mean) ÷ √(variance + ε) · gain + bias",
        "meaning": "LayerNorm: brings a vector to one scale. RMSNorm leaves out the mean and the bias.",
    },
    "residual": {
        "term": "residual stream",
        "formula": "x ← x + sub-layer(x)",
        "meaning": "The vector of a position on its way through the layers. Every sub-layer adds to it.",
    },
    "temperature": {
        "term": "temperature (T)",
        "formula": "p = softmax(logits ÷ T)",
        "meaning": "Below 1 the most probable tokens gain, above 1 the others do. 1 changes nothing.",
    },
}

"""Gradients of a model's predictions: how much each input vector could change each of them."""

from collections.abc import Callable, Sequence

import torch
from jaxtyping import Float
from torch import Tensor, nn

from clearhead.inspection.trace import capture

Norms = Float[Tensor, "outputs inputs"]


def gradient_norms(model: nn.Module, run: Callable[[], Tensor], site: str, following: Sequence[int]) -> Norms:
    """The norm of the gradient of each next token's log-probability at each vector of a site.

    `run` returns the logits of a pass; `following` are the tokens after its first positions. The site has
    one vector for each position: `source_embedding.token_embeddings`.
    """
    with torch.inference_mode(False), torch.enable_grad(), capture(model, [site], gradients=True) as trace:
        logits = run()[: len(following)].float()
        wanted = torch.tensor(list(following), device=logits.device)[:, None]
        log_probs = logits.log_softmax(-1).gather(1, wanted)[:, 0]
        rows = [trace.gradients(one)[site] for one in log_probs]
    return torch.cat(rows).float().norm(dim=-1).cpu()

"""clearhead: a Transformer you can see through and still put in production."""

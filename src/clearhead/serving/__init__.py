"""HTTP in front of the tasks: the explorer's server. No logic of models lives here."""

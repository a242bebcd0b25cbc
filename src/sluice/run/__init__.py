"""Where the halves meet: configuration, the loop that carries commands out, and the only place that constructs."""

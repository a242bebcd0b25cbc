"""The faces: what a person or a program sees of a run. They show notices and pass wishes on; they decide nothing."""

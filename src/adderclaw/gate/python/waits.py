"""Pieces that wait: `async` and `await` are followed as their ordinary forms, of which the same values come."""

import ast

_FORMS: dict[type[ast.AST], type[ast.AST]] = {
    ast.AsyncFunctionDef: ast.FunctionDef,
    ast.AsyncFor: ast.For,
    ast.AsyncWith: ast.With,
}


class _Plain(ast.NodeTransformer):
    def generic_visit(self, node: ast.AST) -> ast.AST:
        super().generic_visit(node)
        form = _FORMS.get(type(node))
        if form is not None:
            made = form(**{name: getattr(node, name) for name in node._fields if hasattr(node, name)})
            return ast.copy_location(made, node)
        if isinstance(node, ast.comprehension):
            node.is_async = 0
        return node.value if isinstance(node, ast.Await) else node


def plain(tree: ast.Module) -> ast.Module:
    """What is called where it stands, and never waits: nothing here depends on when something is done."""
    waits = any(isinstance(node, (ast.Await, ast.comprehension, *_FORMS)) for node in ast.walk(tree))
    return _Plain().visit(tree) if waits else tree

"""A crowded bin of a ``java.util.HashMap``: a red-black tree whose keys are also in a list, in the order of iteration.

Where keys collide a bin is a list in order of insertion. From nine keys on, in a table of 64 or more places, it is a
tree, and the list's order follows from the tree: a new key comes right behind its parent in the tree, and the root is
brought to the front after every change. So the order depends on rotations, and the tree is kept as Java keeps it.

The tree is that of any textbook (Cormen et al.); sources for the list: ``HashMap.TreeNode`` (OpenJDK 17),
``putTreeVal``, ``removeTreeNode``, ``moveRootToFront``, ``split``.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Generic, TypeVar

K = TypeVar("K")

TREE_KEYS = 9
"""From so many keys on ``put`` makes a tree of a bin; ``compute`` and its kin of one key less."""

LIST_KEYS = 6
"""Where a growing table leaves a bin no more keys than this, its tree becomes a list again."""

Rank = tuple[int, Any]
"""By what a tree is sorted: the hash as a signed number, then the key where keys can be compared."""


class _Node(Generic[K]):
    __slots__ = ("is_red", "key", "left", "parent", "rank", "right")

    def __init__(self, key: K, rank: Rank) -> None:
        self.key = key
        self.rank = rank
        self.is_red = False
        self.parent: _Node[K] | None = None
        self.left: _Node[K] | None = None
        self.right: _Node[K] | None = None


class TreeBin(Generic[K]):
    """The keys of a crowded bin.

    Args:
        keys: the keys in the order of the list that becomes a tree.
        rank_of: by what the tree is sorted.
    """

    __slots__ = ("_nodes", "_order", "_rank_of", "_root")

    def __init__(self, keys: Iterable[K], rank_of: Callable[[K], Rank]) -> None:
        self._rank_of = rank_of
        self._order = list(keys)
        self._nodes: dict[K, _Node[K]] = {}
        self._root: _Node[K] | None = None
        for key in self._order:
            self._insert(key)
        self._bring_root_to_front()

    def __iter__(self) -> Iterator[K]:
        return iter(self._order)

    def __len__(self) -> int:
        return len(self._order)

    def add(self, key: K) -> None:
        """Put a new key."""
        parent = self._insert(key)
        self._order.insert(0 if parent is None else self._order.index(parent.key) + 1, key)
        self._bring_root_to_front()

    def remove(self, key: K) -> bool:
        """Remove a key; tells whether what is left is still a tree."""
        self._order.remove(key)
        if self._is_small():
            return False
        self._delete(self._nodes.pop(key))
        self._bring_root_to_front()
        return True

    def split(self, is_upper: Callable[[K], bool]) -> tuple[list[K], list[K]]:
        """The keys of the lower and of the upper bin that a table of double size has."""
        return [key for key in self if not is_upper(key)], [key for key in self if is_upper(key)]

    def _is_small(self) -> bool:
        root = self._root
        return root is None or root.right is None or root.left is None or root.left.left is None

    def _bring_root_to_front(self) -> None:
        if self._root is not None and self._order[0] != self._root.key:
            self._order.remove(self._root.key)
            self._order.insert(0, self._root.key)

    def _insert(self, key: K) -> _Node[K] | None:
        """Put a key into the tree; returns what was its parent when it came."""
        node = self._nodes[key] = _Node(key, self._rank_of(key))
        parent, below = None, self._root
        while below is not None:
            parent = below
            below = below.left if node.rank <= below.rank else below.right
        node.parent = parent
        if parent is None:
            self._root = node
            return None
        if node.rank <= parent.rank:
            parent.left = node
        else:
            parent.right = node
        node.is_red = True
        self._mend_red(node)
        return parent

    def _mend_red(self, node: _Node[K]) -> None:
        """Restore the colours above a new red node."""
        while (parent := node.parent) is not None and parent.is_red:
            grandparent = parent.parent
            if grandparent is None:
                break
            is_left = grandparent.left is parent
            uncle = grandparent.right if is_left else grandparent.left
            if uncle is not None and uncle.is_red:
                parent.is_red = uncle.is_red = False
                grandparent.is_red = True
                node = grandparent
                continue
            if node is (parent.right if is_left else parent.left):
                self._rotate(parent, to_left=is_left)
                parent = node
            parent.is_red, grandparent.is_red = False, True
            self._rotate(grandparent, to_left=not is_left)
            break
        if self._root is not None:
            self._root.is_red = False

    def _rotate(self, node: _Node[K], *, to_left: bool) -> None:
        """Bring a node's child to its place, and the node below it."""
        child = node.right if to_left else node.left
        if child is None:
            raise AssertionError("a rotation brings up a child that is not there")
        inner = child.left if to_left else child.right
        if to_left:
            node.right, child.left = inner, node
        else:
            node.left, child.right = inner, node
        if inner is not None:
            inner.parent = node
        self._put_in_place_of(node, child)
        node.parent = child

    def _put_in_place_of(self, old: _Node[K], new: _Node[K] | None) -> None:
        parent = old.parent
        if parent is None:
            self._root = new
        elif parent.left is old:
            parent.left = new
        else:
            parent.right = new
        if new is not None:
            new.parent = parent

    def _delete(self, node: _Node[K]) -> None:
        if node.left is not None and node.right is not None:
            self._swap_with_next(node, node.right)
        child = node.left if node.left is not None else node.right
        if child is not None:
            self._put_in_place_of(node, child)
            if not node.is_red:
                self._mend_black(child)
            return
        if not node.is_red:
            self._mend_black(node)
        self._put_in_place_of(node, None)

    def _swap_with_next(self, node: _Node[K], following: _Node[K]) -> None:
        """Exchange a node with two children and the next one in order: places and colours."""
        while following.left is not None:
            following = following.left
        node.is_red, following.is_red = following.is_red, node.is_red
        left, right, above, below = node.left, node.right, following.parent, following.right
        self._put_in_place_of(node, following)
        following.left = left
        if left is not None:
            left.parent = following
        if right is following:
            following.right, node.parent = node, following
        else:
            following.right = right
            if right is not None:
                right.parent = following
            node.parent = above
            if above is not None:
                above.left = node
        node.left, node.right = None, below
        if below is not None:
            below.parent = node

    def _mend_black(self, node: _Node[K]) -> None:
        """Restore the colours where a black node is missing above this one."""
        while (parent := node.parent) is not None and not node.is_red:
            is_left = parent.left is node
            sibling = parent.right if is_left else parent.left
            if sibling is not None and sibling.is_red:
                sibling.is_red, parent.is_red = False, True
                self._rotate(parent, to_left=is_left)
                sibling = parent.right if is_left else parent.left
            if sibling is None:
                node = parent
                continue
            near, far = (sibling.left, sibling.right) if is_left else (sibling.right, sibling.left)
            if not _is_red(near) and not _is_red(far):
                sibling.is_red = True
                node = parent
                continue
            if far is None or not far.is_red:
                if near is not None:
                    near.is_red = False
                sibling.is_red = True
                self._rotate(sibling, to_left=not is_left)
                sibling, far = near, sibling
            if sibling is not None:
                sibling.is_red = parent.is_red
            if far is not None:
                far.is_red = False
            parent.is_red = False
            self._rotate(parent, to_left=is_left)
            return
        node.is_red = False


def _is_red(node: _Node[Any] | None) -> bool:
    return node is not None and node.is_red

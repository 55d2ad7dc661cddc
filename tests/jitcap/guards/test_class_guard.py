"""Whatever happens to a class between two calls is seen, with CPython's version tags and without."""

import threading

import pytest

import eager
from eager import nn
from jitcap import jit
from jitcap.guards import class_guard
from jitcap.guards.class_guard import Classes, tags_are_known


@pytest.fixture(params=["tags", "no tags"])
def tags(request, monkeypatch):
    if request.param == "no tags":
        monkeypatch.setattr(class_guard, "tags_are_known", lambda: False)
    return request.param == "tags"


def world():
    """Classes of a program, and a function that relies on them."""

    class Meta(type):
        pass

    class Root:
        def scale(self):
            return 2.0

    class Other:
        def scale(self):
            return 7.0

    class Middle(Root, metaclass=Meta):
        pass

    class Thing(Middle):
        limit = 3.0

        def apply(self, x):
            return x * self.scale() + self.limit

    class Names(dict):
        pass

    class Net(nn.Module):
        def forward(self, x):
            return x + 1

    thing, names, net = Thing(), Names(a=1.0), Net()

    def program(x):
        return net(thing.apply(x)) + names["a"] + getattr(Thing, "extra", 0.0)

    return {**locals(), "seen": []}


def _scale(value):
    return lambda self: value


CHANGES = {
    "a method of the class itself": lambda w: setattr(w["Thing"], "scale", _scale(3.0)),
    "a method of a class between": lambda w: setattr(w["Middle"], "scale", _scale(4.0)),
    "a method of the base": lambda w: setattr(w["Root"], "scale", _scale(5.0)),
    "bases": lambda w: setattr(w["Middle"], "__bases__", (w["Other"], w["Root"])),
    "a constant": lambda w: setattr(w["Thing"], "limit", 9.0),
    "a constant of a base": lambda w: setattr(w["Root"], "extra", 1.5),
    "by type itself": lambda w: type.__setattr__(w["Root"], "scale", _scale(6.0)),
    "a member of the metaclass": lambda w: setattr(w["Meta"], "extra", 2.5),
    "a way to read attributes": lambda w: setattr(
        w["Thing"], "__getattribute__", lambda self, name: (
            _scale(8.0).__get__(self) if name == "scale" else object.__getattribute__(self, name)
        )),
    "items of a class derived from dict": lambda w: setattr(
        w["Names"], "__getitem__", lambda self, key: 11.0),
    "a forward": lambda w: setattr(w["Net"], "forward", lambda self, x: x - 1),
    "a call of modules": lambda w: setattr(w["Net"], "__call__", lambda self, x: x * 10),
}  # fmt: skip


@pytest.mark.filterwarnings("ignore::jitcap.JitcapWarning")  # some changes split it
@pytest.mark.parametrize("change", CHANGES)
def test_a_change_is_seen(change, tags):
    w = world()
    step, x = jit(w["program"], backend="eager"), eager.tensor([1.0, 2.0])
    for _ in range(3):
        assert step(x).tolist() == w["program"](x).tolist()
    assert step.stats.compiles == 1
    before = w["program"](x).tolist()
    CHANGES[change](w)
    expected = w["program"](x).tolist()
    assert expected != before
    for _ in range(3):
        assert step(x).tolist() == expected


@pytest.mark.parametrize("times", [3, 200])
def test_a_change_and_back_again_and_again(times, tags):
    w = world()
    step, x = jit(w["program"], backend="eager"), eager.tensor([1.0, 2.0])
    usual, other = w["program"](x).tolist(), _scale(12.0)
    for i in range(times):
        assert step(x).tolist() == usual
        owner = w[("Thing", "Middle", "Root")[i % 3]]
        mine = vars(owner).get("scale")
        owner.scale = other
        assert step(x).tolist() == w["program"](x).tolist() != usual
        if mine is None:
            del owner.scale
        else:
            owner.scale = mine
    assert step(x).tolist() == usual


def test_a_member_that_is_deleted(tags):
    w = world()
    step, x = jit(w["program"], backend="eager"), eager.tensor([1.0, 2.0])
    step(x)
    step(x)
    del w["Root"].scale
    with pytest.raises(AttributeError, match="scale"):
        step(x)


@pytest.mark.filterwarnings("ignore::jitcap.JitcapWarning")
def test_a_class_that_is_changed_at_each_call(tags):
    class Counter:
        calls = 0.0

    def program(x):
        Counter.calls += 1
        return x * Counter.calls

    step, x = jit(program, backend="eager"), eager.tensor([1.0])
    assert [step(x).item() for _ in range(200)] == [float(i) for i in range(1, 201)]


def test_the_classes_are_looked_at_once(monkeypatch):
    looked = []
    hold = Classes.hold
    monkeypatch.setattr(Classes, "hold", lambda *args: looked.append(1) or hold(*args))
    w = world()
    step, x = jit(w["program"], backend="eager"), eager.tensor([1.0, 2.0])
    for _ in range(10):
        step(x)
    assert len(looked) == (1 if tags_are_known() else 10)
    w["Root"].unrelated = 1  # another tag: they are looked at again
    for _ in range(10):
        step(x)
    assert len(looked) == (2 if tags_are_known() else 20)
    assert step.stats.compiles == 1


@pytest.mark.skipif(not tags_are_known(), reason="this interpreter keeps no tags")
def test_a_change_while_the_classes_are_looked_at():
    """The tags are read before: what was found before the change does not count after it."""

    class Looked:
        pass

    classes = Classes()
    read = classes.tags(Looked)
    fits = "extra" not in vars(Looked)
    Looked.extra = 1
    assert classes.hold(read, fits)
    assert classes.now != classes.seen


@pytest.mark.skipif(not tags_are_known(), reason="this interpreter keeps no tags")
def test_only_the_most_derived_classes_are_watched():
    class Base:
        pass

    class Derived(Base):
        pass

    classes = Classes()
    assert classes.hold(classes.tags(Base, Derived), True)
    assert len(classes.now) == 1
    assert classes.now == classes.seen
    Base.other = 1
    assert classes.now != classes.seen


@pytest.mark.skipif(not tags_are_known(), reason="this interpreter keeps no tags")
def test_a_base_that_is_none_any_more_is_watched_itself():
    class Base:
        pass

    class Other:
        pass

    class Derived(Base):
        pass

    classes = Classes()
    assert classes.hold(classes.tags(Base, Derived), True)
    Derived.__bases__ = (Other,)
    assert classes.now != classes.seen
    assert classes.hold(classes.tags(Base, Derived), True)
    assert classes.now == classes.seen
    Base.other = 1
    assert classes.now != classes.seen


def test_no_class_has_no_tag():
    with pytest.raises(TypeError, match="no class"):
        Classes().tags(eager.Tensor, 3)


def test_no_hook_of_a_metaclass_is_asked():
    asked = []

    class Meta(type):
        def __getattribute__(cls, name):
            asked.append(name)
            return type.__getattribute__(cls, name)

        def __hash__(cls):
            asked.append("hash")
            return 1

        def __eq__(cls, other):
            asked.append("eq")
            return cls is other

        def mro(cls):
            return [*type.mro(cls)]

    class Watched(metaclass=Meta):
        pass

    class Derived(Watched):
        pass

    asked.clear()
    classes = Classes()
    classes.hold(classes.tags(Watched, Derived), True)
    assert not asked


def test_threads_that_change_and_call():
    w = world()
    step, x = jit(w["program"], backend="eager"), eager.tensor([1.0, 2.0])
    both = set()
    for value in (2.0, 3.0):
        w["Root"].scale = _scale(value)
        both.add(tuple(step(x).tolist()))
    done = threading.Event()

    def change():
        for i in range(300):
            w["Root"].scale = _scale((2.0, 3.0)[i % 2])
        done.set()

    thread = threading.Thread(target=change)
    thread.start()
    while not done.is_set():
        assert tuple(step(x).tolist()) in both
    thread.join()
    assert step(x).tolist() == w["program"](x).tolist()

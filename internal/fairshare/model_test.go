package fairshare_test

import "testing"

func TestAFullModelStandsInNobodysWay(t *testing.T) {
	st := newStage(t, 4)
	st.slots.SetModelLimit("full", 1)
	st.wantBegun(st.ask(3, "a", "full"), 1, "calls of the model")
	st.wantBegun(st.ask(1, "b", "full"), 0, "its limit holds over all namespaces")
	st.wantBegun(st.ask(1, "a", "m"), 1, "another model of a namespace that waits")
	st.wantBegun(st.ask(5, "c", "m"), 2, "another namespace")
	st.over()
}

func TestAModelsPlaceGoesToTheBestClaimOnIt(t *testing.T) {
	st := newStage(t, 8)
	st.slots.SetModelLimit("m", 2)
	st.ask(2, "a", "other")
	st.ask(4, "a", "m")
	st.ask(2, "b", "m")
	st.end("a/m 1", "a/m 2")
	st.wantWoken("b/m 1", "b/m 2")
	st.over()
}

func TestAModelsPlaceIsFreeOnceItsCallIsDone(t *testing.T) {
	st := newStage(t, 4)
	st.slots.SetModelLimit("m", 1)
	st.ask(3, "a", "m")
	slot := st.calls["a/m 1"]
	slot.ModelDone()
	st.wantWoken("a/m 2")
	slot.ModelDone()
	slot.Release()
	slot.ModelDone()
	slot.Release()
	st.wantWoken()
	st.end("a/m 2")
	st.wantWoken("a/m 3")
	delete(st.calls, "a/m 1")
	st.over()
}

func TestToolsKeepTheSlot(t *testing.T) {
	st := newStage(t, 1)
	st.ask(2, "a", "m")
	st.calls["a/m 1"].ModelDone()
	st.wantWoken()
	st.end("a/m 1")
	st.wantWoken("a/m 2")
	st.over()
}

func TestAModelsLimitMayChange(t *testing.T) {
	st := newStage(t, 8)
	st.ask(3, "a", "m")
	st.slots.SetModelLimit("m", 2) // what runs goes on, and counts
	st.wantBegun(st.ask(6, "a", "m"), 0, "beside three calls")
	st.end("a/m 1")
	st.wantWoken()
	st.end("a/m 2")
	st.wantWoken("a/m 4")
	st.slots.SetModelLimit("m", 4)
	st.wantWoken("a/m 5", "a/m 6")
	st.slots.SetModelLimit("m", -1)
	st.wantWoken("a/m 7", "a/m 8", "a/m 9")
	st.over()
}

func TestALimitIsKeptWhileNobodyCalls(t *testing.T) {
	st := newStage(t, 8)
	st.slots.SetModelLimit("m", 1)
	st.end(st.ask(1, "a", "m")...)
	st.wantBegun(st.ask(2, "a", "m"), 1, "after a pause")
	st.over()
}

package fairshare_test

import "testing"

// None of the calls named hung ends unless the story says so.

func TestHungCallsOfOneNamespaceLeaveRoomForAnother(t *testing.T) {
	for name, c := range map[string]struct {
		size, hung int
		// newcomers of another model of namespace a, of namespace b and then of c that run at once if they hang too.
		otherModel, b, c int
	}{
		"4 slots and 60 tasks":    {4, 60, 1, 1, 0},
		"256 slots and 600 tasks": {256, 600, 16, 24, 12},
		"1 slot":                  {1, 10, 1, 1, 0},
	} {
		t.Run(name, func(t *testing.T) {
			st := newStage(t, c.size)
			st.wantBegun(st.ask(c.hung, "a", "hung"), c.size, "a namespace alone gets all slots")
			for range 50 {
				begun := st.ask(1, "b", "m")
				st.wantBegun(begun, 1, "a newcomer of another namespace")
				st.end(begun...)
				begun = st.ask(1, "a", "m")
				st.wantBegun(begun, 1, "a newcomer of the same namespace on another model")
				st.end(begun...)
			}
			st.wantBegun(st.ask(100, "a", "m"), c.otherModel, "many of the same namespace")
			st.wantBegun(st.ask(100, "b", "m"), c.b, "many of another namespace")
			st.wantBegun(st.ask(100, "c", "m"), c.c, "many of a third namespace")
			st.wantWoken()
			st.over()
		})
	}
}

func TestNewcomersThatHangLeaveHalfOfWhatWasLeft(t *testing.T) {
	st := newStage(t, 256)
	st.ask(600, "a", "hung")
	for _, c := range []struct {
		namespace string
		want      int
	}{{"b", 32}, {"c", 16}, {"d", 8}, {"e", 4}, {"f", 2}, {"g", 1}, {"h", 1}, {"i", 0}} {
		st.wantBegun(st.ask(600, c.namespace, "hung"), c.want, c.namespace)
	}
	if n := len(st.calls); n != st.slots.Limit() || n != 256+64 {
		t.Errorf("%d calls, of %d", n, st.slots.Limit())
	}
	st.wantWoken()
	st.over()
}

func TestOtherModelsOfANamespaceThatHangsLeaveHalfOfTheOverflow(t *testing.T) {
	st := newStage(t, 256)
	st.ask(600, "a", "hung")
	var begun int
	for _, model := range []string{"m1", "m2", "m3", "m4", "m5", "m6", "m7"} {
		begun += len(st.ask(600, "a", model))
	}
	if begun != 32 {
		t.Errorf("%d calls of other models, want half of the overflow of 64", begun)
	}
	st.wantBegun(st.ask(600, "b", "m"), 16, "another namespace")
	st.over()
}

func TestOfTheOverflowNobodyTakesMoreThanTheirShare(t *testing.T) {
	st := newStage(t, 40)
	st.ask(32, "a", "hung")
	for _, namespace := range []string{"b", "c", "d", "e", "f", "g", "h", "i"} {
		st.ask(1, namespace, "hung")
	}
	st.wantBegun(st.ask(10, "j", "m"), 4, "of 10 namespaces that share 40 slots")
	st.over()
}

func TestSlotsComeBackToThoseWhoHaveTheFewest(t *testing.T) {
	st := newStage(t, 4)
	hung := st.ask(60, "a", "hung")
	st.wantBegun(st.ask(10, "b", "hung"), 1, "b leaves the other slot of the overflow")
	st.wantBegun(st.ask(1, "c", "m"), 1, "c")
	st.wantBegun(st.ask(1, "d", "m"), 0, "d, with nothing left")
	st.end(hung[0])
	st.wantWoken("d/m 1")
	st.ask(1, "d", "m")
	st.end(hung[1], hung[2]) // four slots are taken: a 1, b 1, c 1, d 1
	st.wantWoken()
	st.end(hung[3]) // and now three
	st.wantWoken("a/hung 5")
	st.end("c/m 1", "d/m 1")
	st.wantWoken("b/hung 2", "d/m 2")
	st.over()
}

func TestWhoLeavesGivesTheOthersALargerShareOfTheOverflow(t *testing.T) {
	st := newStage(t, 16)
	st.slots.SetModelLimit("full", 15)
	st.ask(15, "a", "full")
	for _, namespace := range []string{"b", "c", "d", "e", "f", "g", "h", "i"} {
		st.ask(1, namespace, "full")
	}
	st.wantBegun(st.ask(2, "a", "m"), 1, "of 9 namespaces and 2 models")
	for _, namespace := range []string{"b", "c", "d", "e", "f", "g", "h", "i"} {
		st.slots.Leave(namespace + "/full 1")
	}
	st.wantWoken("a/m 2")
	st.over()
}

// Package fairshare shares a number of call slots between namespaces and, within one, between models. It never blocks: a key
// that gets no slot is noted, and woken when one is held for it. It knows no time and starts no goroutine.
//
// # Who is next
//
// A free slot goes to the namespace that has the fewest, within it to the model that has the fewest, and there to the key that
// came first. Of equals, the one that was last given a slot, or began to wait, the longest ago is next, so nobody starves
// however long the others' queues are. A namespace alone gets all. No slot stays free while a key waits that could use it.
//
// # Calls that hang
//
// A call is never ended for the sake of others, so the calls of one namespace that hang can hold all slots of the size. For
// those who come later there is an overflow, a quarter of the size and at least 2. With all slots of the size taken, it serves
// only a group that has less than its share, which is the size divided by the namespaces that have slots or wait, and again by
// the models of this one that do, and is at least 1. Of the overflow, furthermore,
//
//   - a namespace takes a slot only while it has fewer slots than are left of it, so that one that hangs too leaves some to the
//     next: the first takes at most half, the second half of the rest, and so on;
//   - another model of a namespace that has its share already takes from one half only (at least 1), likewise while this model
//     has fewer slots than are left of that half.
//
// At most size + overflow slots are taken or held at once, which Limit tells; with more namespaces than slots, so many are all
// the time. Once newcomers hang as well and nothing is left, who comes then waits for the first call that ends. Every slot comes
// back once its calls have timed out, and goes to those who have the fewest. So a namespace without a slot waits no longer than
// the longest calls that share a slot take, as long as no more namespaces wait so than there are slots.
//
// # Models
//
// A model may have a limit of its own, over all namespaces and without an overflow. It counts slots until ModelDone. Who waits
// for a model that is full stands in nobody's way; once there is room, the one of them with the best claim is next for a free
// slot.
//
// # What the caller must do
//
//  1. Try Take whenever a key needs a call, and return at once when it gives nil: wake comes when a slot is held.
//  2. End whatever looks at a key by Take or Leave: also when it was woken, turned out to need no call now, or is gone. A slot
//     that is held counts as taken, until one of these two.
//  3. Plan anew after a wait. What was read before it may have changed.
//  4. Call Release once the calls are over, in a defer: a panic must give the slot back, too. ModelDone before it, when tools
//     still run, frees the model's place early.
//  5. Release before the next Take. A slot serves one group, and whoever holds one while it waits for another could wait for
//     ever. A Take by a key that has one gives that one back.
//  6. Have more workers than Limit, so that what needs no call never waits behind what does.
//  7. Call SetModelLimit when a model is first seen, when its limit changes, and with 0 when it is deleted.
//  8. Make wake quick: it may call back, but must not block. It may come late, after Leave or another Take: it means no more
//     than to look at the key again.
//
// # Cost
//
// With n namespaces that have a key that could be served, and m models of the namespace in question, Take, Leave, ModelDone
// and Release take O(n + log m). Where a model becomes full or has room again, each namespace that uses it adds O(log m).
// A SetModelLimit that makes room takes as much for each slot that it gives. A key costs a few hundred bytes until it has left.
package fairshare

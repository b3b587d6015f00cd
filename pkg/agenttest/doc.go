// Package agenttest runs the operator within the envtest suites of others: for tests of what creates AgentTasks, waits for them and
// answers them.
//
//	env := &envtest.Environment{CRDs: agenttest.CRDs()}
//	cfg, err := env.Start()
//	...
//	op := agenttest.Start(t, cfg, agenttest.Options{})
//	op.Create(agenttest.Scripted("default", "default", agenttest.Says("NEED_INPUT: which one?"), agenttest.Says("TASK_COMPLETE: that one")))
//	task := agenttest.Task("default", "choose", "Choose one.")
//	op.Create(task)
//	task = op.AwaitQuestion(task)
//	op.Answer(task, "the second")
//	task = op.AwaitEnd(task)
//
// Nothing here calls a model provider. A model is a list of replies (Scripted) or a function of the requests (ServeModel), and tools
// are functions (ServeTools). Time is real unless Options has a Clock.
//
// Examples are in examples/agenttest, which is a module of its own as yours is.
package agenttest

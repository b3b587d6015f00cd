// Package mcp gives the loop the tools of MCP servers.
//
// A Pool keeps one session a toolset and shares it between tasks and turns. Resolve joins the tools of a task's toolsets
// to a Set, which is the loop's Toolbox.
//
// Three rules shape the package. A tools/call is sent at most once: nothing here, in the SDK or in net/http repeats it,
// and when its answer is lost the result says whether it is certain that it did not run. One call's bad answer harms that
// call alone: the SDK ends a session at the first response it cannot read, so the wall (see wall.go) keeps such responses
// from it. A broken server costs others nothing: discovery is bounded, backed off and never in another toolset's way.
package mcp

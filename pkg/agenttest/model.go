package agenttest

import (
	"net/http/httptest"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/agentloop-dev/agenttask-operator/api/v1alpha1"
	"github.com/agentloop-dev/agenttask-operator/test/fakechat"
)

// Says is a scripted reply of a text, such as "TASK_COMPLETE: done" or "NEED_INPUT: which one?".
func Says(text string) v1alpha1.ScriptedReply { return v1alpha1.ScriptedReply{Text: &text} }

// Calls is a scripted reply that calls a tool, by the name that a model knows (toolset__tool), with arguments as JSON.
func Calls(tool, arguments string) v1alpha1.ScriptedReply {
	return v1alpha1.ScriptedReply{ToolCalls: []v1alpha1.ScriptedToolCall{{Name: tool, Arguments: &arguments}}}
}

// Fails is a scripted failure of a call: RateLimited, Unavailable, AuthenticationFailed, ContextWindowExceeded, Refused or InvalidRequest.
func Fails(with v1alpha1.ScriptedError) v1alpha1.ScriptedReply {
	return v1alpha1.ScriptedReply{Error: with}
}

// Scripted is an AgentModel that gives each task these replies, in order, and the last one again and again. It needs no server.
func Scripted(namespace, name string, replies ...v1alpha1.ScriptedReply) *v1alpha1.AgentModel {
	return &v1alpha1.AgentModel{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec:       v1alpha1.AgentModelSpec{Provider: v1alpha1.ProviderScripted, Scripted: &v1alpha1.Script{Replies: replies}},
	}
}

// A model as a function.
type (
	// ModelRequest is what the operator asks a model: the conversation so far, and the tools that it may call.
	ModelRequest = fakechat.Request
	// ModelReply is what a model answers: a text, calls, an error, a delay, or a stream that breaks off.
	ModelReply = fakechat.Reply
	// ModelCall is a tool call of a reply.
	ModelCall = fakechat.Call
)

// ModelServer is a model that answers by a function, served in the OpenAI-compatible format.
type ModelServer struct {
	// URL is its endpoint.
	URL  string
	chat *fakechat.Server
}

// ServeModel serves a model until the test ends. Answer is called for each request, from several goroutines at once.
func ServeModel(t testing.TB, answer func(*ModelRequest) ModelReply) *ModelServer {
	chat := fakechat.New(answer)
	server := httptest.NewServer(chat)
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
	})
	return &ModelServer{URL: server.URL + "/v1", chat: chat}
}

// Requests counts the requests so far.
func (m *ModelServer) Requests() int64 { return m.chat.Calls() }

// AgentModel is an AgentModel on this server.
func (m *ModelServer) AgentModel(namespace, name string) *v1alpha1.AgentModel {
	return &v1alpha1.AgentModel{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec: v1alpha1.AgentModelSpec{
			Provider: v1alpha1.ProviderOpenAI, Model: "test", Endpoint: m.URL, RequestTimeout: &metav1.Duration{Duration: time.Minute},
		},
	}
}

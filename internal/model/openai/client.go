package openai

import (
	"bufio"
	"context"
	"crypto/rand"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	sdk "github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/packages/ssestream"

	"github.com/agentloop-dev/agenttask-operator/internal/loop"
	"github.com/agentloop-dev/agenttask-operator/internal/model"
)

const (
	// DefaultEndpoint serves models without an endpoint of their own.
	DefaultEndpoint = "https://api.openai.com/v1"
	// maxAdaptions bounds how often one request is sent again in another form. A rejected request costs no tokens.
	maxAdaptions = 5
	// drainWait is how long the end of a body is waited for after the reply is complete, so that its connection can be
	// used again.
	drainWait = 100 * time.Millisecond
	// finishWait is how long the next event is waited for after the finish reason: the usage, or the end. Some servers leave
	// a stream open, and the task would wait with it.
	finishWait = 5 * time.Second
)

type client struct {
	cfg   model.Config
	chat  sdk.ChatCompletionService
	known atomic.Pointer[features]
}

// New makes a model from a configuration. With no endpoint it is OpenAI's own.
func New(cfg model.Config) (loop.Model, error) {
	cfg, err := cfg.Prepared()
	if err != nil {
		return nil, err
	}
	if cfg.HTTP == nil {
		if cfg.HTTP, err = model.NewHTTPClient(cfg, nil); err != nil {
			return nil, err
		}
	}
	c := &client{
		cfg: cfg,
		// A service of its own, unlike a whole client, reads no OPENAI_… variables of the operator's environment: their
		// key must not go to a user's endpoint.
		chat: sdk.NewChatCompletionService(options(cfg)...),
	}
	first := firstFeatures(cfg)
	c.known.Store(&first)
	return c, nil
}

func options(cfg model.Config) []option.RequestOption {
	base, query := splitEndpoint(cfg.Endpoint)
	opts := []option.RequestOption{
		option.WithBaseURL(base),
		option.WithHTTPClient(cfg.HTTP),
		option.WithMaxRetries(0),
		option.WithMiddleware(catchStatus),
	}
	switch {
	case cfg.APIKey == "":
	case isAzure(base):
		opts = append(opts, option.WithHeader("api-key", cfg.APIKey))
	default:
		opts = append(opts, option.WithAPIKey(cfg.APIKey))
	}
	for name, value := range cfg.Query {
		query.Set(name, value)
	}
	for name := range query {
		opts = append(opts, option.WithQuery(name, query.Get(name)))
	}
	for name, value := range cfg.Headers {
		opts = append(opts, option.WithHeader(name, value))
	}
	return opts
}

// splitEndpoint takes the query off an endpoint: the SDK would drop it, and Azure's api-version is often written there.
func splitEndpoint(endpoint string) (string, url.Values) {
	u, err := url.Parse(endpoint)
	if endpoint == "" || err != nil {
		return DefaultEndpoint, url.Values{}
	}
	query := u.Query()
	u.RawQuery, u.Fragment = "", ""
	return strings.TrimSuffix(u.String(), "/"), query
}

// isAzure: Azure takes its key in a header of its own, and reads a bearer token as an Entra one.
func isAzure(base string) bool {
	u, err := url.Parse(base)
	if err != nil {
		return false
	}
	for _, domain := range []string{".openai.azure.com", ".cognitiveservices.azure.com", ".services.ai.azure.com"} {
		if strings.HasSuffix(u.Hostname(), domain) {
			return true
		}
	}
	return false
}

// catchStatus reads an answer with an error status before the SDK does.
func catchStatus(req *http.Request, next option.MiddlewareNext) (*http.Response, error) {
	resp, err := next(req)
	if err != nil {
		return resp, err
	}
	return model.CatchStatus(resp)
}

// Generate makes one call. See loop.Model.
func (c *client) Generate(ctx context.Context, req *loop.Request, onBytes func(n int)) (*loop.Reply, error) {
	ctx, count, end := model.BeginCall(ctx, c.cfg, onBytes)
	defer end()
	req = model.UniqueCallIDs(req)
	sent := model.OutputCap(req.MaxOutputTokens, c.cfg.Parameters.MaxOutputTokens)
	resp, err := c.send(ctx, req, sent) //nolint:bodyclose // closeBody closes it
	if status := (*model.StatusError)(nil); errors.As(err, &status) && usedUp(status.Body) {
		return &loop.Reply{Finish: loop.FinishLength, Usage: loop.Usage{OutputTokens: sent, Estimated: true}, RequestID: requestID(status.Header)}, nil
	}
	if err != nil {
		return nil, toModelError(ctx, err, sent)
	}
	defer closeBody(resp.Body)

	a := newAssembler(func() string { return "call_" + rand.Text() })
	a.id, a.sent = requestID(resp.Header), sent
	failure := read(ctx, resp, a, count)
	if errors.Is(context.Cause(ctx), model.ErrReplyTooLarge) {
		return a.reply(false), model.ErrorFromTransport(ctx, ctx.Err())
	}
	// A reply that said it is complete is one, whatever became of the connection after: only usage can be missing.
	if a.completed || a.finish != "" && !brokenOff[a.finish] {
		if !a.started {
			return a.reply(false), emptyReply()
		}
		return a.reply(true), nil
	}
	return a.reply(false), failure
}

// send sends the request, in other forms as long as the server rejects it for something that can be left out.
func (c *client) send(ctx context.Context, req *loop.Request, sent int64) (*http.Response, error) {
	f := *c.known.Load()
	bare := len(req.Tools) == 0 && len(model.HistoryTools(req.Messages)) > 0
	tried := map[features]bool{}
	for {
		tried[f] = true
		var resp *http.Response
		_, err := c.chat.New(ctx, toParams(c.cfg, f, req), option.WithResponseBodyInto(&resp))
		if err == nil {
			c.known.Store(&f)
			return resp, nil
		}
		next, ok := adapted(f, err, sent, bare)
		if !ok || tried[next] || len(tried) > maxAdaptions {
			return nil, err
		}
		f = next
	}
}

// read reads the answer by what it is, not by what was asked for: some servers ignore "stream", some call a stream text.
func read(ctx context.Context, resp *http.Response, a *assembler, onBytes func(int)) *loop.ModelError {
	body := bufio.NewReader(resp.Body)
	switch firstByte(body) {
	case '{', '[':
		data, err := io.ReadAll(body)
		if err != nil {
			return model.ErrorFromTransport(ctx, err)
		}
		return readPlain(data, a, onBytes)
	case '<':
		return model.ErrorInvalidReply(resp.StatusCode, "with an HTML or XML page: its address may lack a path such as /v1")
	}
	wrapped := *resp
	wrapped.Body = struct {
		io.Reader
		io.Closer
	}{body, resp.Body}
	failure := readStream(ctx, ssestream.NewDecoder(&wrapped), a, onBytes)
	if failure != nil && errors.Is(failure.Err, io.ErrUnexpectedEOF) && !a.started && !isEventStream(resp.Header) {
		return model.ErrorInvalidReply(resp.StatusCode, "with something that is no reply")
	}
	return failure
}

// firstByte is the first byte that is no white space, 0 where there is none. The white space is gone then: some servers send
// a lot of it to keep the connection while they think.
func firstByte(body *bufio.Reader) byte {
	for {
		c, err := body.ReadByte()
		if err != nil {
			return 0
		}
		switch c {
		case ' ', '\t', '\r', '\n':
		default:
			_ = body.UnreadByte()
			return c
		}
	}
}

// closeBody waits a moment for the end that follows a complete reply, then closes.
func closeBody(body io.ReadCloser) {
	timer := time.AfterFunc(drainWait, func() { _ = body.Close() })
	defer timer.Stop()
	_, _ = io.CopyN(io.Discard, body, 512)
	_ = body.Close()
}

func isEventStream(h http.Header) bool {
	return strings.HasPrefix(strings.ToLower(h.Get("Content-Type")), "text/event-stream")
}

func requestID(h http.Header) string {
	return firstOf(printable(h.Get("X-Request-Id")), printable(h.Get("Apim-Request-Id")))
}

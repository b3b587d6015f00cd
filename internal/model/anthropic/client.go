package anthropic

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"mime"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"

	sdk "github.com/anthropics/anthropic-sdk-go"
	"github.com/anthropics/anthropic-sdk-go/option"
	"github.com/anthropics/anthropic-sdk-go/packages/ssestream"

	"github.com/agentloop-dev/agenttask-operator/internal/loop"
	"github.com/agentloop-dev/agenttask-operator/internal/model"
)

// DefaultEndpoint serves models without an endpoint of their own.
const DefaultEndpoint = "https://api.anthropic.com"

// messagesPath is the API's one path that is used, under the base URL.
const messagesPath = "v1/messages"

// client is a loop.Model. It is safe for concurrent use.
type client struct {
	cfg model.Config
	sdk sdk.Client
	// plain: the server refused to stream, and answered in one piece.
	plain atomic.Bool
	// unsampled: the server refused temperature or top_p, and answered without them.
	unsampled atomic.Bool
}

// New makes a model of the Anthropic Messages API, or of a server compatible with it where cfg.Endpoint is set (with or
// without its trailing /v1). It makes no call. Nothing is taken from the environment.
func New(cfg model.Config) (loop.Model, error) {
	cfg, err := cfg.Prepared()
	if err != nil {
		return nil, err
	}
	if cfg.HTTP == nil {
		cfg.HTTP = http.DefaultClient
	}
	opts := []option.RequestOption{
		option.WithoutEnvironmentDefaults(),
		option.WithoutOpenTelemetry(), // Spans are made above all providers, and never hold content.
		option.WithMaxRetries(0),      // The loop retries.
		option.WithHTTPClient(cfg.HTTP),
		option.WithMiddleware(catchStatus),
	}
	base, err := url.Parse(cmp.Or(cfg.Endpoint, DefaultEndpoint))
	if err != nil {
		return nil, errors.New("the endpoint is no URL") // The parser's error would repeat it.
	}
	base.Path = strings.TrimSuffix(strings.TrimRight(base.Path, "/"), "/v1") + "/"
	base.RawPath = ""
	opts = append(opts, option.WithBaseURL(base.String()))
	if cfg.APIKey != "" {
		opts = append(opts, option.WithAPIKey(cfg.APIKey))
	}
	for k, v := range cfg.Headers {
		opts = append(opts, option.WithHeader(k, v))
	}
	for k, v := range cfg.Query {
		opts = append(opts, option.WithQuery(k, v))
	}
	return &client{cfg: cfg, sdk: sdk.NewClient(opts...)}, nil
}

// Generate sends one request. It is sent again only where the server refused it outright (and so billed nothing) for
// something that can be left out: temperature and top_p, the output schema, which is a hint, or streaming.
func (c *client) Generate(ctx context.Context, req *loop.Request, onBytes func(n int)) (*loop.Reply, error) {
	ctx, count, stop := model.BeginCall(ctx, c.cfg, onBytes)
	defer stop()
	req = model.UniqueCallIDs(req)
	params := toParams(c.cfg, req)
	if c.unsampled.Load() {
		withoutSampling(&params)
	}
	reply, err := c.send(ctx, params, count)
	unsampled := reply == nil && (params.Temperature.Valid() || params.TopP.Valid()) && refusesSampling(err, params.MaxTokens)
	if unsampled {
		withoutSampling(&params)
		reply, err = c.send(ctx, params, count)
	}
	if params.OutputConfig.Format.Schema != nil && reply == nil && refused(err, params.MaxTokens) {
		params.OutputConfig.Format = sdk.JSONOutputFormatParam{}
		reply, err = c.send(ctx, params, count)
	}
	if err != nil {
		return reply, toModelError(ctx, err, params.MaxTokens)
	}
	if unsampled {
		c.unsampled.Store(true)
	}
	return reply, nil
}

// refused tells whether the API called the request itself invalid, for anything but its max_tokens. What it does not like of
// a schema, it says in prose.
func refused(err error, sent int64) bool {
	var e *model.StatusError
	if !errors.As(err, &e) || e.Status != http.StatusBadRequest {
		return false
	}
	why := e.ModelError(sent)
	return why.Cause == loop.CauseModelRequestInvalid && why.OutputCap == nil
}

// refusesSampling tells whether the API refused the request and named a sampling parameter.
func refusesSampling(err error, sent int64) bool {
	var e *model.StatusError
	return refused(err, sent) && errors.As(err, &e) && samplingIn(e) != ""
}

// send makes the request as a stream, and in one piece where the server cannot stream.
func (c *client) send(ctx context.Context, params sdk.MessageNewParams, count func(int)) (*loop.Reply, error) {
	if c.plain.Load() {
		return c.post(ctx, params, count)
	}
	reply, err := c.post(ctx, params, count, option.WithJSONSet("stream", true))
	if reply == nil && refusesStreaming(err) {
		if reply, err = c.post(ctx, params, count); err == nil {
			c.plain.Store(true)
		}
	}
	return reply, err
}

// post makes one HTTP request and reads what the server chose to answer with.
func (c *client) post(ctx context.Context, params sdk.MessageNewParams, count func(int), opts ...option.RequestOption) (*loop.Reply, error) {
	var resp *http.Response
	if err := c.sdk.Post(ctx, messagesPath, params, &resp, opts...); err != nil {
		return nil, err
	}
	defer func() { _ = resp.Body.Close() }()
	var (
		reply *loop.Reply
		err   error
	)
	if mediaType, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type")); mediaType == "application/json" {
		reply, err = readMessage(resp, count)
	} else {
		reply, err = readStream(ctx, resp, count)
	}
	if reply != nil {
		reply.RequestID = requestID(resp.Header)
	}
	return reply, err
}

func requestID(h http.Header) string {
	if id := h.Get("request-id"); id != "" {
		return id
	}
	return h.Get("x-request-id")
}

func readMessage(resp *http.Response, count func(int)) (*loop.Reply, error) {
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, err
	}
	var m sdk.Message
	if err := json.Unmarshal(body, &m); err != nil {
		if e, ok := errorWithin(resp, body); ok { // in a list
			return nil, e
		}
		return nil, model.ErrorInvalidReply(resp.StatusCode, "its reply was no JSON of the Messages API")
	}
	if m.Type != "message" && len(m.Content) == 0 {
		if e, ok := errorWithin(resp, body); ok {
			return nil, e
		}
		return nil, model.ErrorInvalidReply(resp.StatusCode, "its reply was no message")
	}
	reply := toReply(&m)
	n := 0
	for _, b := range reply.Blocks {
		n += len(b.Text)
	}
	for _, t := range reply.ToolCalls {
		n += len(t.Arguments)
	}
	count(n)
	return reply, nil
}

// readStream reads until the message is complete, the stream breaks or ctx ends, and returns what arrived in any case.
func readStream(ctx context.Context, resp *http.Response, count func(int)) (*loop.Reply, error) {
	events := ssestream.NewDecoder(resp)
	defer func() { _ = events.Close() }()
	var (
		s   stream
		err error
	)
	for !s.ended && events.Next() {
		var ev sdk.MessageStreamEventUnion
		if ev, err = decodeEvent(resp, events.Event()); err != nil {
			break
		}
		if n := s.apply(ev); n > 0 {
			count(n)
		}
		if ctx.Err() != nil { // The counter may have ended it, with more events already read.
			break
		}
	}
	if err == nil {
		err = events.Err()
	}
	switch {
	case s.complete():
		return s.reply(true), nil // What happens after the end of a message takes nothing away from it.
	case err == nil:
		err = incomplete(ctx, s.events)
	}
	if s.events == 0 {
		return nil, err
	}
	return s.reply(false), err
}

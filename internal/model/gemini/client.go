package gemini

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"sync/atomic"

	"google.golang.org/genai"

	"github.com/agentloop-dev/agenttask-operator/internal/loop"
	"github.com/agentloop-dev/agenttask-operator/internal/model"
)

const (
	// DefaultEndpoint serves models without an endpoint of their own. It is always given to the SDK, which would otherwise look for one
	// in the environment.
	DefaultEndpoint = "https://generativelanguage.googleapis.com/"
	// defaultVersion is the API's version where the endpoint names none.
	defaultVersion = "v1beta"
)

// versionPath matches the version at the end of an endpoint's path.
var versionPath = regexp.MustCompile(`/(v\d+(?:(?:alpha|beta)\d*)?)$`)

// client is a loop.Model. It is safe for concurrent use.
type client struct {
	cfg model.Config
	sdk *genai.Client
	// plain: the server refused to stream, and answered in one piece.
	plain atomic.Bool
	// declares: the server refused calls of tools that were not declared.
	declares atomic.Bool
}

// New makes a model of the Gemini API, or of a server compatible with it where cfg.Endpoint is set (with or without the
// version at its end). It makes no call. Nothing is taken from the environment.
func New(cfg model.Config) (loop.Model, error) {
	cfg, err := cfg.Prepared()
	if err != nil {
		return nil, err
	}
	if strings.ContainsAny(cfg.Model, "?&#") || strings.Contains(cfg.Model, "..") {
		return nil, errors.New("the model's name cannot be part of a path")
	}
	base, version, err := endpoint(cfg.Endpoint)
	if err != nil {
		return nil, err
	}
	headers := http.Header{}
	for k, v := range cfg.Headers {
		headers.Set(k, v)
	}
	key, httpClient := cfg.APIKey, wrap(cfg, base.Host)
	if key == "" {
		key = "none" // The SDK insists on one; the transport takes it out.
	}
	c, err := genai.NewClient(context.Background(), &genai.ClientConfig{
		Backend: genai.BackendGeminiAPI, APIKey: key, HTTPClient: httpClient,
		// No RetryOptions: without them the SDK does not retry.
		HTTPOptions: genai.HTTPOptions{BaseURL: base.String(), APIVersion: version, Headers: headers},
	})
	if err != nil {
		return nil, errors.New("the Gemini client refused its configuration") // The SDK's error repeats the key.
	}
	return &client{cfg: cfg, sdk: c}, nil
}

// endpoint splits the version from a base URL.
func endpoint(raw string) (*url.URL, string, error) {
	if raw == "" {
		raw = DefaultEndpoint
	}
	u, err := url.Parse(raw)
	if err != nil {
		return nil, "", errors.New("the endpoint is no URL") // The parser's error would repeat it.
	}
	u.RawPath = ""
	u.Path = strings.TrimRight(u.Path, "/")
	version := defaultVersion
	if m := versionPath.FindStringSubmatch(u.Path); m != nil {
		version, u.Path = m[1], strings.TrimSuffix(u.Path, m[0])
	}
	return u, version, nil
}

// wrap puts our transport before that of the shared client, which stays as it is.
func wrap(cfg model.Config, host string) *http.Client {
	shared := cfg.HTTP
	if shared == nil {
		shared = http.DefaultClient
	}
	t := &transport{next: shared.Transport, host: host, query: cfg.Query}
	if t.next == nil {
		t.next = http.DefaultTransport
	}
	if cfg.APIKey == "" {
		t.header = map[string]string{}
		for k, v := range cfg.Headers {
			t.header[http.CanonicalHeaderKey(k)] = v
		}
	}
	own := *shared
	own.Transport = t
	return &own
}

// Generate sends one request. It is sent again only where the server refused it outright (and so billed nothing) for
// something that can be left out or added: the output schema, which is a hint, streaming, or the tools of earlier calls.
func (c *client) Generate(ctx context.Context, req *loop.Request, onBytes func(n int)) (*loop.Reply, error) {
	ctx, count, stop := model.BeginCall(ctx, c.cfg, onBytes)
	defer stop()
	req = model.UniqueCallIDs(req)
	contents, config := toContents(req.Messages), toConfig(c.cfg, req)
	history := model.HistoryTools(req.Messages)
	if c.declares.Load() {
		declare(config, history)
	}
	reply, err := c.send(ctx, contents, config, count)
	if len(history) > 0 && len(config.Tools) == 0 && refusedForm(reply, err) {
		declare(config, history)
		if reply, err = c.send(ctx, contents, config, count); err == nil {
			c.declares.Store(true)
		}
	}
	if config.ResponseJsonSchema != nil && refusedForm(reply, err) {
		setSchema(config, nil)
		reply, err = c.send(ctx, contents, config, count)
	}
	if err != nil {
		return reply, err
	}
	return reply, nil
}

// refusedForm tells whether a server refused a request for something in its form, maybe what can be left out or added.
func refusedForm(reply *loop.Reply, err *loop.ModelError) bool {
	return reply == nil && err != nil && err.Cause == loop.CauseModelRequestInvalid && err.Status == http.StatusBadRequest && err.OutputCap == nil
}

// declare declares the tools of earlier calls in a request that is to make none.
func declare(config *genai.GenerateContentConfig, history []loop.ToolDefinition) {
	if len(config.Tools) == 0 && len(history) > 0 {
		config.Tools = toTools(history)
		config.ToolConfig = &genai.ToolConfig{FunctionCallingConfig: &genai.FunctionCallingConfig{Mode: genai.FunctionCallingConfigModeNone}}
	}
}

// send makes the request as a stream, and in one piece where the server cannot stream.
func (c *client) send(ctx context.Context, contents []*genai.Content, config *genai.GenerateContentConfig, count func(int)) (*loop.Reply, *loop.ModelError) {
	if c.plain.Load() {
		return c.whole(ctx, contents, config, count)
	}
	reply, err, refused := c.stream(ctx, contents, config, count)
	if refused {
		if reply, err = c.whole(ctx, contents, config, count); err == nil {
			c.plain.Store(true)
		}
	}
	return reply, err
}

// stream reads until the stream ends or breaks or ctx ends, and returns what arrived in any case.
func (c *client) stream(ctx context.Context, contents []*genai.Content, config *genai.GenerateContentConfig, count func(int)) (_ *loop.Reply, _ *loop.ModelError, refused bool) {
	ctx, ex := withExchange(ctx, config)
	var s stream
	failed := c.read(ctx, contents, config, &s, count)
	if s.chunks == 0 && refusesStreaming(failed) {
		return nil, nil, true
	}
	reply, err := conclude(ctx, &s, failed, ex)
	return reply, err, false
}

// read takes the stream's chunks into s. The SDK panics where a server's JSON has another shape than it expects, such as
// text in place of a list; that is a broken reply. A panic of count is not ours to catch.
func (c *client) read(ctx context.Context, contents []*genai.Content, config *genai.GenerateContentConfig, s *stream, count func(int)) (failed error) {
	inSDK := true
	defer func() {
		if inSDK && recover() != nil {
			failed = errShape
		}
	}()
	for chunk, err := range c.sdk.Models.GenerateContentStream(ctx, c.cfg.Model, contents, config) {
		if err != nil {
			return err
		}
		inSDK = false
		if n := s.apply(chunk); n > 0 {
			count(n)
		}
		inSDK = true
		if ctx.Err() != nil { // The counter may have ended it, with more chunks already read.
			return nil
		}
	}
	return nil
}

// whole makes the request without streaming.
func (c *client) whole(ctx context.Context, contents []*genai.Content, config *genai.GenerateContentConfig, count func(int)) (*loop.Reply, *loop.ModelError) {
	ctx, ex := withExchange(ctx, config)
	var s stream
	resp, err := c.readWhole(ctx, contents, config)
	if err == nil {
		count(s.apply(resp))
	}
	return conclude(ctx, &s, err, ex)
}

// readWhole is read for an answer in one piece.
func (c *client) readWhole(ctx context.Context, contents []*genai.Content, config *genai.GenerateContentConfig) (_ *genai.GenerateContentResponse, failed error) {
	defer func() {
		if recover() != nil {
			failed = errShape
		}
	}()
	return c.sdk.Models.GenerateContent(ctx, c.cfg.Model, contents, config)
}

// conclude says what came of a call.
func conclude(ctx context.Context, s *stream, failed error, ex *exchange) (*loop.Reply, *loop.ModelError) {
	var err *loop.ModelError
	switch {
	case errors.Is(context.Cause(ctx), model.ErrReplyTooLarge):
		err = model.ErrorFromTransport(ctx, model.ErrReplyTooLarge) // Even if its last chunk was in what is too much.
	case s.complete():
		return s.reply(), nil // What happens after the end of a reply takes nothing away from it.
	case s.blocked:
		err = promptBlocked(ex.status)
	case failed != nil:
		err = toModelError(ctx, failed, ex)
	default:
		err = incomplete(ctx, s.chunks, ex)
	}
	if s.chunks == 0 {
		return nil, err
	}
	return s.reply(), err
}

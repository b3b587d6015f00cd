package mcp

import (
	"io"
	"mime"
	"net/http"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
)

// boundedBody is the body of a real response. It ends with an error where it may grow no more, and tells when it is closed.
type boundedBody struct {
	io.ReadCloser
	// grow says whether the body, or one event of it, may have that size in the exchange.
	grow func(ex *exchange, size int) error
	ex   *exchange
	read int
	// perEvent: the reader of the events asks grow for each of them, and the whole has no bound.
	perEvent bool
	done     func()
	// finish lets the body live on for a moment when the request's context ends, to be read to its end: then its connection
	// can be used again.
	finish func()
}

func (b *boundedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if b.perEvent {
		return n, err
	}
	b.read += n
	if err := b.grow(b.ex, b.read); err != nil {
		return 0, err
	}
	return n, err
}

func (b *boundedBody) Close() error {
	defer b.done()
	return b.ReadCloser.Close()
}

// bodyOf is the body of a response that send gave.
func bodyOf(resp *http.Response) *boundedBody { return resp.Body.(*boundedBody) }

// requestOf reads the JSON-RPC request in a POST's body, nil when there is none.
func requestOf(req *http.Request) *jsonrpc.Request {
	if req.GetBody == nil {
		return nil
	}
	body, err := req.GetBody()
	if err != nil {
		return nil
	}
	defer body.Close()
	raw, err := io.ReadAll(body)
	if err != nil {
		return nil
	}
	msg, err := jsonrpc.DecodeMessage(raw)
	if err != nil {
		return nil
	}
	rpc, _ := msg.(*jsonrpc.Request)
	return rpc
}

func failed(status int) bool { return status < 200 || status > 299 }

func mediaType(resp *http.Response) string {
	t, _, err := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	if err != nil {
		return ""
	}
	return t
}

package mcp

import (
	"io"
	"mime"
	"net/http"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
)

// boundedBody ends with errBodyTooLarge after its limit, and tells when it is closed.
type boundedBody struct {
	io.ReadCloser
	left    int64
	bounded bool
	done    func()
	// finish lets the body live on for a moment when the request's context ends, to be read to its end: then its connection
	// can be used again.
	finish func()
}

func (b *boundedBody) Read(p []byte) (int, error) {
	if !b.bounded {
		return b.ReadCloser.Read(p)
	}
	// One byte more than is left tells a body of just the limit from a larger one.
	if int64(len(p)) > b.left+1 {
		p = p[:b.left+1]
	}
	n, err := b.ReadCloser.Read(p)
	if int64(n) > b.left {
		return int(b.left), errBodyTooLarge
	}
	b.left -= int64(n)
	return n, err
}

func (b *boundedBody) Close() error {
	defer b.done()
	return b.ReadCloser.Close()
}

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

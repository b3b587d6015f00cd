package gemini

import (
	"bufio"
	"io"
	"net/http"
	"reflect"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/agentloop-dev/agenttask-operator/internal/loop"
	"github.com/agentloop-dev/agenttask-operator/internal/model/modeltest"
)

func TestOnlyDataOfEventsIsPassedOn(t *testing.T) {
	long := strings.Repeat("x", 10000)
	for reason, tc := range map[string]struct{ in, want string }{
		"data as it comes":                   {"data: {}\n\ndata: {}\r\n\r\n", "data: {}\n\ndata: {}\r\n\r\n"},
		"a comment between events":           {"data: 1\n\n: ping\n\ndata: 2\n\n", "data: 1\n\ndata: 2\n\n"},
		"a comment between events with CRLF": {"data: 1\r\n\r\n: ping\r\n\r\ndata: 2\r\n\r\n", "data: 1\r\n\r\ndata: 2\r\n\r\n"},
		"comments before all":                {":\n\n\n: ping\n\ndata: 1\n\n", "data: 1\n\n"},
		"other fields around data":           {"event: message\nid: 1\ndata: 1\nretry: 5\n\n", "data: 1\n\n"},
		"an end without an empty line":       {"data: 1\n\n: ping\ndata: 2", "data: 1\n\ndata: 2"},
		"a long line in pieces":              {": " + long + "\ndata: " + long + "\n\n", "data: " + long + "\n\n"},
		"an error over several lines":        {"{\n  \"error\": {}\n}\n\n  x\n\ndata: 1\n\n", "{\n  \"error\": {}\n}\n\ndata: 1\n\n"},
		"heartbeats":                         {"data:\n\ndata: \r\n\r\ndata: 1\n\ndata: null\n\nevent: ping\ndata: x\n\ndata: 2\n\n", "data: 1\n\ndata: 2\n\n"},
		"a heartbeat in an event":            {"data:\ndata: 1\ndata: \n\n", "data: 1\n\n"},
		"nothing":                            {"", ""},
	} {
		t.Run(reason, func(t *testing.T) {
			// Byte by byte, as the network may bring it.
			got, err := io.ReadAll(&dataLines{in: bufio.NewReader(iotest.OneByteReader(strings.NewReader(tc.in)))})
			if err != nil || string(got) != tc.want {
				t.Errorf("got %q, %v; want %q", got, err, tc.want)
			}
		})
	}
}

func TestStreamWithCommentsAndNamesIsRead(t *testing.T) {
	for reason, end := range map[string]string{"LF": "\n", "CRLF": "\r\n"} {
		t.Run(reason, func(t *testing.T) {
			f := modeltest.Serve(t, func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
				for _, c := range hello {
					_, _ = io.WriteString(w, ": ping"+end+end+"event: message"+end+"data: "+c+end+end)
				}
			})
			reply, n, err := modeltest.Generate(t, mustNew(t, f.Config("gemini-x")))
			if err != nil || n != 5 || !reflect.DeepEqual(reply.Texts(), []string{"Hello"}) || reply.Finish != loop.FinishStop || reply.Usage != usage41 {
				t.Errorf("got %+v and %d bytes, %v", reply, n, err)
			}
		})
	}
}

func TestErrorBodyOfAnEventStreamIsReadWhole(t *testing.T) {
	header := map[string]string{"Content-Type": "text/event-stream"}
	f := modeltest.Serve(t, modeltest.Status(400, header, "The input token count exceeds\nthe maximum number of tokens allowed"))
	_, _, err := modeltest.Generate(t, mustNew(t, f.Config("gemini-x")))
	if e := modeltest.WantModelError(t, err); e.Cause != loop.CauseContextWindowExceeded {
		t.Errorf("got %+v", e)
	}
}

func TestHeartbeatsArePassedOver(t *testing.T) {
	var evs []string
	for _, c := range hello {
		evs = append(evs, "data: "+c+"\n\n")
	}
	modeltest.Heartbeats(t, evs, New)
}

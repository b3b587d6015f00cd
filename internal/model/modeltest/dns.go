// Package modeltest has what the tests of the model providers and tool servers share: names that resolve as a test wants,
// a provider that answers as a test wants, and independently written servers from npm that the test starts itself.
package modeltest

import (
	"context"
	"encoding/binary"
	"io"
	"net"
	"net/netip"
	"strings"
	"testing"

	"golang.org/x/net/dns/dnsmessage"
)

// Resolver answers from a table of names (without the final dot) and knows nothing else. It is a real resolver that talks
// DNS over a pipe, so what is tested is the path that production takes.
func Resolver(t testing.TB, names map[string]netip.Addr) *net.Resolver {
	t.Helper()
	return &net.Resolver{
		PreferGo: true,
		Dial: func(context.Context, string, string) (net.Conn, error) {
			client, server := net.Pipe()
			go serveDNS(server, names)
			return client, nil
		},
	}
}

// serveDNS answers queries framed as DNS over TCP until the client is done.
func serveDNS(conn net.Conn, names map[string]netip.Addr) {
	defer conn.Close()
	for {
		var size [2]byte
		if _, err := io.ReadFull(conn, size[:]); err != nil {
			return
		}
		query := make([]byte, binary.BigEndian.Uint16(size[:]))
		if _, err := io.ReadFull(conn, query); err != nil {
			return
		}
		answer, err := answerDNS(query, names)
		if err != nil {
			return
		}
		if _, err := conn.Write(append(binary.BigEndian.AppendUint16(nil, uint16(len(answer))), answer...)); err != nil {
			return
		}
	}
}

func answerDNS(query []byte, names map[string]netip.Addr) ([]byte, error) {
	var msg dnsmessage.Message
	if err := msg.Unpack(query); err != nil {
		return nil, err
	}
	msg.Response, msg.RecursionAvailable, msg.Additionals = true, true, nil
	q := msg.Questions[0]
	addr, ok := names[strings.TrimSuffix(q.Name.String(), ".")]
	if !ok {
		msg.RCode = dnsmessage.RCodeNameError
		return msg.Pack()
	}
	head := dnsmessage.ResourceHeader{Name: q.Name, Type: q.Type, Class: q.Class}
	switch {
	case q.Type == dnsmessage.TypeA && addr.Is4():
		msg.Answers = []dnsmessage.Resource{{Header: head, Body: &dnsmessage.AResource{A: addr.As4()}}}
	case q.Type == dnsmessage.TypeAAAA && addr.Is6():
		msg.Answers = []dnsmessage.Resource{{Header: head, Body: &dnsmessage.AAAAResource{AAAA: addr.As16()}}}
	}
	return msg.Pack()
}

package loop

// calibration learns how many tokens a byte of request is, from the calls whose usage the provider reported.
type calibration struct {
	bytes, tokens int64
}

// Without a reported call, a token is taken to be 3 bytes: less than English text has, so the guess errs to the high side.
const defaultBytesPerToken = 3

func (c *calibration) learn(r *ModelReplied) {
	const most = 1 << 30 // beyond what a context window holds
	if u := r.Reply.Usage; r.RequestBytes > 0 && r.RequestBytes < most && u.InputTokens > 0 && u.InputTokens < most && !u.Estimated {
		c.bytes, c.tokens = r.RequestBytes, u.InputTokens
	}
}

// estimate is the number of input tokens that a request of n bytes has: what the last one of m bytes had, and the rest at
// the cautious default.
func (c *calibration) estimate(n int64) int64 {
	if c.bytes == 0 {
		return ceilDiv(n, defaultBytesPerToken)
	}
	if n >= c.bytes {
		return c.tokens + ceilDiv(n-c.bytes, defaultBytesPerToken)
	}
	return ceilDiv(n*c.tokens, c.bytes)
}

// outputTokens estimates the tokens of n streamed bytes, by what English text has. A reply is cut by this estimate only when
// the server ignored the cap that the request carried.
func outputTokens(n int64) int64 { return ceilDiv(n, 4) }

func ceilDiv(a, b int64) int64 { return (a + b - 1) / b }

// replyBytes is what a reply that streamed whole would have counted.
func replyBytes(r *Reply) int64 {
	n := 0
	for i := range r.Blocks {
		n += len(r.Blocks[i].Text)
	}
	for i := range r.ToolCalls {
		n += len(r.ToolCalls[i].Name) + len(r.ToolCalls[i].Arguments)
	}
	return int64(n)
}

// fillUsage estimates what a provider did not report, whole or in part. Of a broken-off call, reported output is often only
// its beginning.
func fillUsage(u *Usage, estimatedInput, outputBytes int64, broken bool) {
	*u = Usage{}.Add(*u) // no provider takes tokens back
	noInput := u.InputTokens == 0 && u.TotalTokens <= u.OutputTokens
	noOutput := u.OutputTokens == 0 && u.TotalTokens <= u.InputTokens
	if noInput {
		u.InputTokens, u.Estimated = estimatedInput, true
	}
	if est := outputTokens(outputBytes); (noOutput || broken) && est > u.OutputTokens {
		u.OutputTokens, u.Estimated = est, true
	}
	u.TotalTokens = u.Total()
}

// requestBytes is the size of the text of the request that a call of this purpose would send.
func requestBytes(s *State, sp *Spec, p Purpose) int64 {
	if p == PurposeCompaction {
		return compactionBytes(s, sp)
	}
	return buildRequest(s, sp, p).Bytes()
}

// Bytes is the size of the request's text, with a little for what providers put between its parts.
func (r *Request) Bytes() int64 {
	n := len(r.System) + len(r.OutputSchema)
	for i := range r.Tools {
		t := &r.Tools[i]
		n += len(t.Name) + len(t.Description) + len(t.InputSchema) + 16
	}
	for i := range r.Messages {
		n += messageBytes(&r.Messages[i])
	}
	return int64(n)
}

func messageBytes(m *Message) int {
	n := 12 // what providers add for role and separators
	for i := range m.Blocks {
		n += len(m.Blocks[i].Text)
	}
	for i := range m.ToolCalls {
		n += len(m.ToolCalls[i].Name) + len(m.ToolCalls[i].Arguments) + 12
	}
	for i := range m.ToolResults {
		n += len(m.ToolResults[i].Content) + 12
	}
	return n
}

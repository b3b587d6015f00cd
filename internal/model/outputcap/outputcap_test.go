package outputcap_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/agentloop-dev/agenttask-operator/internal/loop"
	"github.com/agentloop-dev/agenttask-operator/internal/model"
	"github.com/agentloop-dev/agenttask-operator/internal/model/outputcap"
)

// server is a model that takes caps up to a ceiling, and only what its window leaves beside the input. It keeps the caps
// that it was asked with.
type server struct {
	ceiling, window, input int64
	// silent: it names no figure. counts: it counts the input only until it no longer fits, as vLLM does.
	silent, counts bool
	// bare is the cap of a request without one.
	bare  int64
	asked []int64
}

func (s *server) Generate(_ context.Context, req *loop.Request, onBytes func(int)) (*loop.Reply, error) {
	s.asked = append(s.asked, req.MaxOutputTokens)
	sent := req.MaxOutputTokens
	if sent == 0 {
		sent = s.bare
	}
	refuse := func(most int64, thisCall bool) (*loop.Reply, error) {
		if s.silent {
			most = 0
		}
		return nil, &loop.ModelError{Cause: loop.CauseModelRequestInvalid, OutputCap: &loop.RefusedCap{Sent: sent, Max: most, ThisCall: thisCall}}
	}
	switch room := s.window - s.input; {
	case s.ceiling > 0 && sent > s.ceiling:
		return refuse(s.ceiling, false)
	case s.window > 0 && sent > room && s.counts:
		return refuse(sent-1, true)
	case s.window > 0 && sent > room:
		return refuse(room, true)
	}
	onBytes(5)
	return &loop.Reply{}, nil
}

func (s *server) take() []int64 {
	out := s.asked
	s.asked = nil
	return out
}

func ask(t *testing.T, m loop.Model, limit int64) error {
	t.Helper()
	req := loop.Request{MaxOutputTokens: limit}
	_, err := m.Generate(t.Context(), &req, func(int) {})
	if req.MaxOutputTokens != limit {
		t.Errorf("the request was changed: %d", req.MaxOutputTokens)
	}
	return err
}

func TestCapsAreLoweredToWhatTheServerTakes(t *testing.T) {
	for reason, tc := range map[string]struct {
		server server
		first  int64
		asked  []int64
		second int64
		then   []int64
	}{
		"a named maximum is remembered":            {server{ceiling: 16_384}, 900_000, []int64{900_000, 16_384}, 800_000, []int64{16_384}},
		"a smaller cap stays":                      {server{ceiling: 16_384}, 900_000, []int64{900_000, 16_384}, 900, []int64{900}},
		"what is taken is not lowered":             {server{}, 900_000, []int64{900_000}, 900_000, []int64{900_000}},
		"no cap stays none":                        {server{ceiling: 16_384}, 900_000, []int64{900_000, 16_384}, 0, []int64{0}},
		"without a name it is halved":              {server{ceiling: 9000, silent: true}, 900_000, []int64{900_000, 65_536, 32_768, 16_384, 8192}, 900_000, []int64{8192}},
		"a small cap is halved from where it is":   {server{ceiling: 9000, silent: true}, 20_000, []int64{20_000, 10_000, 5000}, 4000, []int64{4000}},
		"what this input leaves is not remembered": {server{window: 32_768, input: 900}, 900_000, []int64{900_000, 31_868}, 900_000, []int64{900_000, 31_868}},
		"a maximum and a window, each believed once": {server{ceiling: 64_000, window: 200_000, input: 190_000}, 900_000, []int64{900_000, 64_000, 10_000},
			900_000, []int64{64_000, 10_000}},
		"a count that goes on no further is halved": {server{window: 40_000, input: 20_000, counts: true}, 900_000, []int64{900_000, 899_999, 65_536, 32_768, 16_384},
			10_000, []int64{10_000}},
		"what the client sends of itself is refused": {server{ceiling: 4096, bare: 8192}, 0, []int64{0, 4096}, 0, []int64{4096}},
		"and without a name":                         {server{ceiling: 3000, bare: 8192, silent: true}, 0, []int64{0, 4096, 2048}, 0, []int64{2048}},
		"a named maximum lowers what has none":       {server{ceiling: 4096, bare: 8192}, 0, []int64{0, 4096}, 9000, []int64{4096}},
	} {
		t.Run(reason, func(t *testing.T) {
			m := outputcap.Wrap(&tc.server, 0)
			for _, step := range []struct {
				limit int64
				want  []int64
			}{{tc.first, tc.asked}, {tc.second, tc.then}} {
				if err := ask(t, m, step.limit); err != nil {
					t.Fatal(err)
				}
				if got := tc.server.take(); !slices.Equal(got, step.want) {
					t.Errorf("asked with %d, want %d", got, step.want)
				}
			}
		})
	}
}

func TestAServerThatTakesNoCapIsLeftWithItsRefusal(t *testing.T) {
	for reason, tc := range map[string]struct {
		first, least int64
		tries        int
	}{
		"a large cap":             {1 << 40, 256, 10},
		"a cap near the least":    {300, 256, 2},
		"a cap at the least":      {256, 256, 1},
		"a cap that is small":     {20, 20, 1},
		"no cap, and none is had": {0, 0, 1},
	} {
		t.Run(reason, func(t *testing.T) {
			s := &server{ceiling: 1, silent: true, bare: 100}
			err := ask(t, outputcap.Wrap(s, 0), tc.first)
			if e := (*loop.ModelError)(nil); !errors.As(err, &e) || e.OutputCap == nil {
				t.Errorf("got %v, want the refusal", err)
			}
			if len(s.asked) != tc.tries || slices.Min(s.asked) != tc.least {
				t.Errorf("asked with %d", s.asked)
			}
		})
	}
	t.Run("a server that names ever less", func(t *testing.T) {
		tries := 0
		m := outputcap.Wrap(loop.ModelFunc(func(_ context.Context, req *loop.Request, _ func(int)) (*loop.Reply, error) {
			tries++
			return nil, &loop.ModelError{OutputCap: &loop.RefusedCap{Sent: req.MaxOutputTokens, Max: req.MaxOutputTokens - 1, ThisCall: tries%2 == 0}}
		}), 0)
		if err := ask(t, m, 1<<40); err == nil || tries > 12 {
			t.Errorf("%d tries, %v", tries, err)
		}
	})
}

func TestAGuessIsForgottenInTime(t *testing.T) {
	s := &server{ceiling: 16_384, silent: true}
	m := outputcap.Wrap(s, 0)
	if err := ask(t, m, 900_000); err != nil {
		t.Fatal(err)
	}
	s.ceiling, s.asked = 0, nil
	for range 100 {
		if err := ask(t, m, 900_000); err != nil {
			t.Fatal(err)
		}
	}
	if guessed := slices.Index(s.asked, 900_000); guessed != 64 {
		t.Errorf("the guess served %d calls, want 64", guessed)
	}
	if slices.Min(s.asked[64:]) != 900_000 {
		t.Error("the guess came back")
	}
}

func TestOnlyARefusalOfTheCapIsAskedAgain(t *testing.T) {
	broken := errors.New("broken")
	refused := &loop.ModelError{OutputCap: &loop.RefusedCap{Sent: 900_000, Max: 4096}}
	for reason, tc := range map[string]struct {
		bytes int
		err   error
	}{
		"another error":                      {0, &loop.ModelError{Cause: loop.CauseModelUnavailable}},
		"an error of no kind":                {0, broken},
		"a refusal after a reply had begun":  {7, refused},
		"a call that went well, so to speak": {7, nil},
	} {
		t.Run(reason, func(t *testing.T) {
			tries, bytes := 0, 0
			m := outputcap.Wrap(loop.ModelFunc(func(_ context.Context, _ *loop.Request, onBytes func(int)) (*loop.Reply, error) {
				tries++
				onBytes(tc.bytes)
				return &loop.Reply{}, tc.err
			}), 0)
			_, err := m.Generate(t.Context(), &loop.Request{MaxOutputTokens: 900_000}, func(n int) { bytes += n })
			if !errors.Is(err, tc.err) || tries != 1 || bytes != tc.bytes {
				t.Errorf("%d tries, %d bytes, %v", tries, bytes, err)
			}
		})
	}
}

func TestACapIsLearnedOnlyWhenItWasTaken(t *testing.T) {
	var asked []int64
	m := outputcap.Wrap(loop.ModelFunc(func(_ context.Context, req *loop.Request, _ func(int)) (*loop.Reply, error) {
		asked = append(asked, req.MaxOutputTokens)
		if req.MaxOutputTokens > 4096 {
			return nil, &loop.ModelError{OutputCap: &loop.RefusedCap{Sent: req.MaxOutputTokens, Max: 4096}}
		}
		return nil, &loop.ModelError{Cause: loop.CauseModelUnavailable}
	}), 0)
	for range 2 {
		_ = ask(t, m, 9000)
	}
	if want := []int64{9000, 4096, 9000, 4096}; !slices.Equal(asked, want) {
		t.Errorf("asked with %d, want %d", asked, want)
	}
}

func TestAllTriesOfACallShareItsTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		m := outputcap.Wrap(loop.ModelFunc(func(ctx context.Context, req *loop.Request, _ func(int)) (*loop.Reply, error) {
			select {
			case <-ctx.Done():
				return nil, model.ErrorFromTransport(ctx, ctx.Err())
			case <-time.After(4 * time.Second):
				return nil, &loop.ModelError{OutputCap: &loop.RefusedCap{Sent: req.MaxOutputTokens}}
			}
		}), 10*time.Second)
		if err := ask(t, m, 900_000); !errors.Is(err, model.ErrRequestTimeout) {
			t.Errorf("got %v", err)
		}
		if took := time.Since(began); took != 10*time.Second {
			t.Errorf("it took %v", took)
		}
	})
}

func TestCallsAtOnceLearnTogether(t *testing.T) {
	m := outputcap.Wrap(loop.ModelFunc(func(_ context.Context, req *loop.Request, _ func(int)) (*loop.Reply, error) {
		if req.MaxOutputTokens > 16_384 {
			return nil, &loop.ModelError{OutputCap: &loop.RefusedCap{Sent: req.MaxOutputTokens, ThisCall: req.Sequence%2 == 0}}
		}
		return &loop.Reply{}, nil
	}), 0)
	var wg sync.WaitGroup
	for n := range 50 {
		wg.Go(func() {
			if _, err := m.Generate(t.Context(), &loop.Request{MaxOutputTokens: 900_000, Sequence: n}, func(int) {}); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
}

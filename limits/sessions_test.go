package limits

import (
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
)

func TestSessions(t *testing.T) {
	t.Parallel()
	server := miniredis.RunT(t)
	client := connect(t, server.Addr())
	s := NewSessions(client)
	ctx := t.Context()
	if _, found, err := s.FindCtx(ctx, "a"); err != nil || found {
		t.Errorf("found %v, %v", found, err)
	}
	for _, value := range []string{"one", "two"} {
		if err := s.CommitCtx(ctx, "a", []byte(value), time.Now().Add(time.Hour)); err != nil {
			t.Fatal(err)
		}
		if got, found, err := s.FindCtx(ctx, "a"); err != nil || !found || string(got) != value {
			t.Errorf("%q, %v, %v", got, found, err)
		}
	}
	server.FastForward(time.Hour)
	if _, found, err := s.FindCtx(ctx, "a"); err != nil || found {
		t.Errorf("after its end: %v, %v", found, err)
	}
	if err := s.CommitCtx(ctx, "b", []byte("x"), time.Now().Add(time.Hour)); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := s.DeleteCtx(ctx, "b"); err != nil {
			t.Error(err)
		}
	}
	// The answer of a request that began before stores it once more.
	if err := s.CommitCtx(ctx, "b", []byte("x"), time.Now().Add(time.Hour)); err != nil {
		t.Error(err)
	}
	if _, found, err := s.FindCtx(ctx, "b"); err != nil || found {
		t.Errorf("deleted: %v, %v", found, err)
	}
}

func TestAttempts(t *testing.T) {
	t.Parallel()
	server := miniredis.RunT(t)
	client := connect(t, server.Addr())
	a := NewAttempts(client)
	try := func(key string, want time.Duration) {
		t.Helper()
		if wait, err := a.Try(t.Context(), key, 3); err != nil || wait > want || want-wait > want/2 {
			t.Errorf("wait %v, %v; want %v", wait, err, want)
		}
	}
	for range 3 {
		try("ada", 0)
	}
	for _, wait := range []time.Duration{time.Second, 2 * time.Second, 4 * time.Second} {
		try("ada", wait)
		try("ada", wait)
		server.FastForward(wait)
		try("ada", 0)
	}
	try("bob", 0)
	if err := a.Forget(t.Context(), "ada"); err != nil {
		t.Fatal(err)
	}
	try("ada", 0)
	for range 40 {
		try("eve", 0)
		server.FastForward(maxWait)
	}
	try("eve", 0)
	try("eve", maxWait)
	server.FastForward(forgetTries)
	for range 3 {
		try("eve", 0)
	}
}

package limits

import (
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
)

func TestSessions(t *testing.T) {
	t.Parallel()
	server := miniredis.RunT(t)
	client := connect(t, server.Addr())
	s := NewSessions(client, "acme")
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

// What is noted of a person's sessions is that of those which go on, and a session is ended by its
// person alone.
func TestNotes(t *testing.T) {
	t.Parallel()
	eachRedis(t, func(t *testing.T, client *redis.Client) {
		s, ctx := NewSessions(client, "acme"), t.Context()
		ada, bob := uniqueKey(t), uniqueKey(t)+"b"
		ids := map[string]string{}
		for _, token := range []string{"one", "two", "three"} {
			token += ada
			if err := s.CommitCtx(ctx, token, []byte("x"), time.Now().Add(time.Hour)); err != nil {
				t.Fatal(err)
			}
			id, err := s.Note(ctx, ada, token, []byte(token), time.Hour)
			if err != nil {
				t.Fatal(err)
			}
			ids[token] = id
		}
		want := func(tokens ...string) {
			t.Helper()
			got, err := s.Of(ctx, ada)
			if err != nil {
				t.Fatal(err)
			}
			for i := range tokens {
				tokens[i] += ada
			}
			slices.Sort(tokens)
			if !slices.Equal(slices.Sorted(maps.Values(got)), tokens) {
				t.Errorf("the sessions are %q, want %q", got, tokens)
			}
		}
		want("one", "two", "three")
		if ended, err := s.End(ctx, bob, ids["one"+ada]); err != nil || ended {
			t.Errorf("another person's: %v, %v", ended, err)
		}
		if ended, err := s.End(ctx, ada, ids["one"+ada]); err != nil || !ended {
			t.Errorf("ended %v, %v", ended, err)
		}
		// The answer of a request that began before stores it once more.
		if err := s.CommitCtx(ctx, "one"+ada, []byte("x"), time.Now().Add(time.Hour)); err != nil {
			t.Fatal(err)
		}
		if _, found, err := s.FindCtx(ctx, "one"+ada); err != nil || found {
			t.Errorf("found %v, %v", found, err)
		}
		want("two", "three")
		if err := s.DeleteCtx(ctx, "two"+ada); err != nil {
			t.Fatal(err)
		}
		want("three")
		if n, err := client.HLen(ctx, ownerKey(ada)).Result(); err != nil || n != 1 {
			t.Errorf("%d notes are kept, %v", n, err)
		}
		if ttl, err := client.TTL(ctx, ownerKey(ada)).Result(); err != nil || ttl <= 0 || ttl > time.Hour {
			t.Errorf("they are kept for %v, %v", ttl, err)
		}
		if got, err := s.Of(ctx, bob); err != nil || len(got) > 0 {
			t.Errorf("%q, %v", got, err)
		}
	})
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

package stack_test

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"waypost/devstack/datadir"
	"waypost/devstack/harness"
	"waypost/devstack/stack"
	"waypost/store/storetest"
)

// environ is the environment of a stack that meets nobody else's.
func environ(dir string, more ...string) []string {
	return append(harness.FreePorts(dir), more...)
}

func TestStartAndStop(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	dir := t.TempDir()
	var out strings.Builder
	s, err := stack.Start(ctx, stack.Options{Environ: environ(dir), NoDemo: true, Out: &out, ErrOut: io.Discard})
	if err != nil {
		t.Fatal(err)
	}
	if s.Profile.AccessKey == "" || s.Profile.SecretKey == "" || s.Profile.WebhookID != "" || s.EnrollmentID != "" {
		t.Errorf("without the demo the profile is %+v", s.Profile)
	}
	for _, want := range []string{s.Profile.URL, s.Profile.TemporalUI, s.Profile.TemporalAddress, s.Profile.Receiver, "/messages", "/readyz", "redis://", s.DataDir(), datadir.ProfileFile, datadir.EnvFile} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the banner lacks %s:\n%s", want, out.String())
		}
	}
	for _, u := range []string{s.Profile.TemporalUI, s.Profile.Receiver + "/messages"} {
		if res, err := http.Get(u); err != nil || res.StatusCode != http.StatusOK {
			t.Errorf("%s: %v, %v", u, res, err)
		} else {
			res.Body.Close()
		}
	}

	_, err = stack.Start(ctx, stack.Options{Environ: environ(dir), Out: io.Discard, ErrOut: io.Discard})
	if err == nil || !strings.Contains(err.Error(), "another waypost-dev") || strings.Contains(err.Error(), "\n") {
		t.Errorf("a second one on the same directory: %v", err)
	}
	_, err = stack.Start(ctx, stack.Options{Environ: environ(t.TempDir(), "WAYPOST_HTTP_ADDR="+strings.TrimPrefix(s.Profile.URL, "http://")), Out: io.Discard, ErrOut: io.Discard})
	if err == nil || !strings.Contains(err.Error(), "is in use: set WAYPOST_HTTP_ADDR") || strings.Contains(err.Error(), "\n") {
		t.Errorf("a second one on the same port: %v", err)
	}

	if err := s.Stop(ctx); err != nil {
		t.Error(err)
	}
	for _, u := range []string{s.Profile.URL, s.Profile.TemporalUI, s.Profile.Receiver, "http://" + s.Profile.TemporalAddress} {
		parsed, err := url.Parse(u)
		if err != nil {
			t.Fatal(err)
		}
		if c, err := net.DialTimeout("tcp", parsed.Host, time.Second); err == nil {
			c.Close()
			t.Errorf("%s listens after Stop", u)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, datadir.LockFile)); err == nil {
		t.Error("the lock is still there")
	}
}

func TestOnlySomeParts(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	dir := t.TempDir()
	var out strings.Builder
	s, err := stack.Start(ctx, stack.Options{Environ: environ(dir), Parts: []stack.Part{stack.Redis, stack.Receiver}, Out: &out, ErrOut: io.Discard})
	if err != nil {
		t.Fatal(err)
	}
	if c, err := net.DialTimeout("tcp", strings.TrimPrefix(s.Profile.URL, "http://"), time.Second); err == nil {
		c.Close()
		t.Error("there is a gateway")
	}
	env, err := os.ReadFile(filepath.Join(dir, datadir.EnvFile))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"WAYPOST_DATABASE_URL=sqlite:" + dir, "WAYPOST_ENCRYPTION_KEYS=dev:", "WAYPOST_REDIS_URL=redis://127.0.0.1:",
		"WAYPOST_TEMPORAL_ADDRESS=" + s.Profile.TemporalAddress, "WAYPOST_WEBHOOK_ALLOW_CIDRS=127.0.0.0/8", "WAYPOST_ADDRESS_RATE=10000",
		"WAYPOST_HTTP_ADDR=" + strings.TrimPrefix(s.Profile.URL, "http://"), "WAYPOST_TEMPORAL_UI_URL=" + s.Profile.TemporalUI,
	} {
		if !slices.ContainsFunc(strings.Split(string(env), "\n"), func(l string) bool { return strings.HasPrefix(l, "export "+want) }) {
			t.Errorf("waypost.env lacks %s:\n%s", want, env)
		}
	}
	for _, want := range []string{"waypost.env && bin/waypost gateway", "waypost.env && bin/waypost worker"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the banner lacks %q:\n%s", want, out.String())
		}
	}
	if err := s.Stop(ctx); err != nil {
		t.Error(err)
	}
}

// TestEarlierBuild starts a stack on a database of an earlier build.
func TestEarlierBuild(t *testing.T) {
	storetest.EarlierBuild(t, func(t *testing.T, dbURL string) {
		_, err := stack.Start(context.Background(), stack.Options{Environ: environ(t.TempDir(), "WAYPOST_DATABASE_URL="+dbURL), Parts: []stack.Part{stack.Redis}, Out: io.Discard, ErrOut: io.Discard})
		if err == nil || !strings.Contains(err.Error(), "was made by an earlier build") || strings.Contains(err.Error(), "\n") {
			t.Errorf("the error is %v", err)
		}
	})
}

func TestStartThatFailsLeavesNothing(t *testing.T) {
	ctx := context.Background()
	dir := t.TempDir()
	_, err := stack.Start(ctx, stack.Options{Environ: environ(dir, "WAYPOST_DATABASE_URL=sqlite:/proc/waypost.db"), Parts: []stack.Part{stack.Redis}, Out: io.Discard, ErrOut: io.Discard})
	if err == nil || !strings.Contains(err.Error(), "WAYPOST_DATABASE_URL") || strings.Contains(err.Error(), "\n") {
		t.Errorf("the error is %v", err)
	}
	if _, err := os.Stat(filepath.Join(dir, datadir.LockFile)); err == nil {
		t.Error("the lock is still there")
	}
}

package stack

import (
	"context"
	"net"
	"slices"
	"strings"
	"testing"

	"waypost/devstack/temporal"
)

func TestClaimAddressesReportsEveryPortInUse(t *testing.T) {
	t.Parallel()
	a, b := occupy(t), occupy(t)
	free := "127.0.0.1:0"
	err := claimAddresses(context.Background(), []address{
		{"WAYPOST_DEV_TEMPORAL_ADDR", &a, true},
		{"WAYPOST_DEV_RECEIVER_ADDR", &free, true},
		{"WAYPOST_HTTP_ADDR", &b, true},
	}, map[string]string{})
	if err == nil {
		t.Fatal("no error")
	}
	lines := strings.Split(err.Error(), "\n")
	_, port, _ := net.SplitHostPort(a)
	want := "port " + port + " is in use: set WAYPOST_DEV_TEMPORAL_ADDR"
	if len(lines) != 2 || !strings.HasPrefix(lines[0], want) || !strings.Contains(lines[1], "WAYPOST_HTTP_ADDR") {
		t.Errorf("got %q", lines)
	}
}

func TestClaimAddressesPicksFreePortsAndKeepsThem(t *testing.T) {
	t.Parallel()
	remembered := map[string]string{}
	pick := func() []string {
		a, b := "127.0.0.1:0", "127.0.0.1:0"
		if err := claimAddresses(context.Background(), []address{{"A", &a, true}, {"B", &b, true}}, remembered); err != nil {
			t.Fatal(err)
		}
		return []string{a, b}
	}
	first := pick()
	if first[0] == first[1] || strings.HasSuffix(first[0], ":0") {
		t.Fatalf("picked %v", first)
	}
	if again := pick(); !slices.Equal(first, again) {
		t.Errorf("then %v, now %v", first, again)
	}
	l, err := net.Listen("tcp", first[0])
	if err != nil {
		t.Fatalf("the port is still held: %v", err)
	}
	defer l.Close()
	if again := pick(); again[0] == first[0] || again[1] != first[1] {
		t.Errorf("with %s taken: %v", first[0], again)
	}
}

func TestClaimAddressesOfPartsLeftOut(t *testing.T) {
	t.Parallel()
	taken := occupy(t)
	joined := "127.0.0.1:0"
	err := claimAddresses(context.Background(), []address{
		{"WAYPOST_HTTP_ADDR", &taken, false}, // a gateway of its own may run there already
		{"WAYPOST_DEV_REDIS_ADDR", &joined, false},
	}, map[string]string{"WAYPOST_DEV_REDIS_ADDR": taken})
	if err != nil || joined != taken {
		t.Errorf("%s, %v", joined, err)
	}
}

func TestClaimAddressesOfTwoSettingsAlike(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	a := l.Addr().String()
	b := a
	l.Close()
	err = claimAddresses(context.Background(), []address{{"A", &a, true}, {"B", &b, true}}, map[string]string{})
	if err == nil || !strings.Contains(err.Error(), "A and B are both "+a) {
		t.Errorf("the error is %v", err)
	}
}

func TestReachableAndOrigins(t *testing.T) {
	t.Parallel()
	for addr, want := range map[string]string{
		"127.0.0.1:80": "127.0.0.1:80", "0.0.0.0:80": "127.0.0.1:80", ":80": "127.0.0.1:80", "[::]:80": "[::1]:80", "localhost:80": "localhost:80", "10.0.0.7:80": "10.0.0.7:80",
	} {
		if got := temporal.Reachable(addr); got != want {
			t.Errorf("Reachable(%s) = %s, want %s", addr, got, want)
		}
	}
	for addr, want := range map[string][]string{
		"127.0.0.1:80": {"http://127.0.0.1:80", "http://localhost:80"},
		"localhost:80": {"http://localhost:80", "http://127.0.0.1:80"},
		"10.0.0.7:80":  {"http://10.0.0.7:80"},
	} {
		if got := origins(addr); !slices.Equal(got, want) {
			t.Errorf("origins(%s) = %v, want %v", addr, got, want)
		}
	}
}

func TestParseParts(t *testing.T) {
	t.Parallel()
	if all, err := ParseParts(nil); err != nil || !slices.Equal(all, Parts) {
		t.Errorf("%v, %v", all, err)
	}
	if some, err := ParseParts([]string{"redis", " receiver"}); err != nil || !slices.Equal(some, []Part{Redis, Receiver}) {
		t.Errorf("%v, %v", some, err)
	}
	if _, err := ParseParts([]string{"typesense"}); err == nil || !strings.Contains(err.Error(), "temporal, redis, receiver, gateway, worker") {
		t.Errorf("the error is %v", err)
	}
}

func occupy(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l.Addr().String()
}

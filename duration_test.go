package waypost_test

import (
	"encoding/json"
	"testing"
	"time"

	"pgregory.net/rapid"

	"waypost"
)

func TestParseDuration(t *testing.T) {
	t.Parallel()
	const day = 24 * time.Hour
	for in, want := range map[string]time.Duration{
		"0": 0, "0s": 0, "300ms": 300 * time.Millisecond, "72h": 72 * time.Hour, "1h30m": 90 * time.Minute, "1.5h": 90 * time.Minute,
		"P3D": 3 * day, "P1W": 7 * day, "P1W1D": 8 * day, "PT5M": 5 * time.Minute, "PT0.5S": 500 * time.Millisecond, "P1DT12H": 36 * time.Hour,
		"PT36H": 36 * time.Hour, "PT1H2M3S": time.Hour + 2*time.Minute + 3*time.Second, "PT0S": 0, "876000h": 36500 * day, "P36500D": 36500 * day,
	} {
		if got, err := waypost.ParseDuration(in); err != nil || time.Duration(got) != want {
			t.Errorf("%q: %s, %v; want %s", in, got, err, want)
		}
	}
	for _, in := range []string{
		"", " ", "1", "1d", "1 h", "soon", "-1h", "P", "PT", "P1DT", "P1Y", "P1M", "P1.5D", "-P1D", "P-1D", "PT1M1H", "p1d", "P1D ", "PT1S\n",
		"876001h", "P36501D", "P999999W", "PT999999999H", "P9999999D", "1e400h", "300000h300000h300000h",
	} {
		if got, err := waypost.ParseDuration(in); err == nil {
			t.Errorf("%q is accepted as %s", in, got)
		}
	}
}

func TestDurationString(t *testing.T) {
	t.Parallel()
	for in, want := range map[time.Duration]string{
		0: "0s", 72 * time.Hour: "72h", 90 * time.Minute: "1h30m", 10 * time.Minute: "10m", 30 * time.Second: "30s", time.Hour + 30*time.Second: "1h0m30s",
		10 * time.Hour: "10h", 100 * time.Minute: "1h40m", 1500 * time.Millisecond: "1.5s",
	} {
		if got := waypost.Duration(in).String(); got != want {
			t.Errorf("%s is written %q, want %q", in, got, want)
		}
	}
}

func TestDurationRoundTrip(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		want := waypost.Duration(rapid.Int64Range(0, int64(100*365*24*time.Hour)).Draw(t, "duration"))
		b, err := json.Marshal(want)
		if err != nil {
			t.Fatal(err)
		}
		var got waypost.Duration
		if err := json.Unmarshal(b, &got); err != nil || got != want {
			t.Fatalf("%s came back as %d, %v; want %d", b, got, err, want)
		}
	})
}

package e2e

import (
	"regexp"
	"strings"
	"testing"

	"waypost/devstack/command"
)

func TestHelpTeaches(t *testing.T) {
	var out, errs strings.Builder
	if code := command.Run([]string{"--help"}, nil, &out, &errs); code != 0 || errs.Len() > 0 {
		t.Fatalf("exit %d: %s", code, errs.String())
	}
	for _, want := range []string{
		"--only", "--no-demo", "WAYPOST_DATA_DIR", "./.waypost", "WAYPOST_DEV_TEMPORAL_ADDR", "127.0.0.1:7233", "WAYPOST_DEV_TEMPORAL_UI_ADDR",
		"127.0.0.1:8233", "WAYPOST_DEV_RECEIVER_ADDR", "127.0.0.1:8090", "WAYPOST_DEV_REDIS_ADDR", "127.0.0.1:6380",
		"WAYPOST_DEV_TEMPORAL_DATABASE_URL", "waypost.env", "profile.json", "Ctrl-C",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the help lacks %s:\n%s", want, out.String())
		}
	}
	// Its default is another one than that of the gateway.
	if !regexp.MustCompile(`WAYPOST_ADDRESS_RATE +10000 `).MatchString(out.String()) {
		t.Errorf("the help shows another default of WAYPOST_ADDRESS_RATE:\n%s", out.String())
	}
}

func TestFaultsAreOneLineEach(t *testing.T) {
	dir := "WAYPOST_DATA_DIR=" + t.TempDir()
	cases := []struct {
		name  string
		args  []string
		env   []string
		lines []string
	}{
		{"unknown flag", []string{"--oly", "redis"}, nil, []string{"--oly"}},
		{"argument", []string{"redis"}, nil, []string{"redis"}},
		{"unknown part", []string{"--only", "kafka"}, nil, []string{`"kafka"`}},
		{"no part", []string{"--only", ""}, nil, []string{"--only"}},
		{"settings", nil, []string{dir, "WAYPOST_HTTP_ADDR=x", "WAYPOST_DEV_REDIS_ADDR=y"}, []string{"WAYPOST_HTTP_ADDR", "WAYPOST_DEV_REDIS_ADDR"}},
		{"directory", nil, []string{"WAYPOST_DATA_DIR=/proc/waypost"}, []string{"WAYPOST_DATA_DIR"}},
	}
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			var out, errs strings.Builder
			if code := command.Run(tc.args, tc.env, &out, &errs); code != 1 {
				t.Errorf("exit %d", code)
			}
			lines := strings.Split(strings.TrimSuffix(errs.String(), "\n"), "\n")
			if len(lines) != len(tc.lines) {
				t.Fatalf("said:\n%s", errs.String())
			}
			for i, want := range tc.lines {
				if !strings.HasPrefix(lines[i], "waypost-dev: ") || !strings.Contains(lines[i], want) {
					t.Errorf("line %d lacks %s: %s", i+1, want, lines[i])
				}
			}
		})
	}
}

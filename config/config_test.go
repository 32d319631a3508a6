package config_test

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/caarlos0/env/v11"

	"waypost/config"
)

const key = "k1:AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="

// needed is the least environment that every role starts with.
func needed(more ...string) []string {
	return append([]string{
		"WAYPOST_DATABASE_URL=sqlite:/tmp/x.db", "WAYPOST_REDIS_URL=redis://127.0.0.1:6379/0", "WAYPOST_ENCRYPTION_KEYS=" + key,
		"WAYPOST_TYPESENSE_URL=http://127.0.0.1:8108", "WAYPOST_TYPESENSE_API_KEY=ts",
		"WAYPOST_CODEC_OIDC_ISSUER=https://login.example.com", "WAYPOST_CODEC_OIDC_AUDIENCE=temporal-ui",
	}, more...)
}

func TestLoadDefaults(t *testing.T) {
	t.Parallel()
	cfg, warnings, err := config.Load(config.RoleGateway, needed())
	if err != nil || len(warnings) > 0 {
		t.Fatalf("warnings %q, error %v", warnings, err)
	}
	want := config.Config{
		HTTP:       config.HTTP{Addr: "127.0.0.1:8080", AddressRate: 50, LeastRate: 4096},
		Admin:      config.Admin{Addr: "127.0.0.1:9090"},
		Database:   config.Database{URL: "sqlite:/tmp/x.db"},
		Redis:      config.Redis{URL: "redis://127.0.0.1:6379/0"},
		Temporal:   config.Temporal{Address: "127.0.0.1:7233", Namespace: "default", TaskQueue: "waypost", UIURL: "http://127.0.0.1:8233"},
		Search:     config.Search{URLs: []string{"http://127.0.0.1:8108"}, APIKey: "ts"},
		Encryption: config.Encryption{Keys: key},
		Lead:       config.Lead{PhoneRegion: "CN"},
		Retention:  config.Retention{Events: config.Age(90 * 24 * time.Hour), EventCounts: config.Age(3 * 365 * 24 * time.Hour)},
	}
	if !reflect.DeepEqual(cfg, want) {
		t.Errorf("got  %#v\nwant %#v", cfg, want)
	}
}

func TestLoadRoles(t *testing.T) {
	t.Parallel()
	worker, _, err := config.Load(config.RoleWorker, needed())
	if err != nil || worker.Admin.Addr != "127.0.0.1:9091" || worker.HTTP.Addr != "" {
		t.Errorf("worker: admin %q, http %q, error %v", worker.Admin.Addr, worker.HTTP.Addr, err)
	}
	dev, _, err := config.Load(config.RoleDev, nil)
	if err != nil || dev.Dev.TemporalAddr != "127.0.0.1:7233" || dev.DataDir != "./.waypost" || dev.Database.URL != "" {
		t.Errorf("dev: %#v, error %v", dev, err)
	}
	client, _, err := config.Load(config.RoleClient, []string{"WAYPOST_URL=http://127.0.0.1:8080/", "WAYPOST_HTTP_ADDR=broken", "WAYPOST_STAGE=test"})
	if err != nil || client.Client.URL != "http://127.0.0.1:8080" || client.Client.Stage != "test" {
		t.Errorf("client: %#v, error %v", client, err)
	}
}

func TestLoadValues(t *testing.T) {
	t.Parallel()
	cfg, _, err := config.Load(config.RoleServe, needed(
		"WAYPOST_WEBHOOK_ALLOW_CIDRS=127.0.0.1/8, fd00::1/8", "WAYPOST_WEBHOOK_PORTS=80, 443", "WAYPOST_LOG_LEVEL=warn",
		"WAYPOST_LOG_FORMAT=json", "WAYPOST_TEMPORAL_UI_URL=https://ui.example.com/x/", "WAYPOST_PHONE_REGION=",
		"WAYPOST_TYPESENSE_URL=http://a:8108/, https://b", "WAYPOST_TYPESENSE_API_KEY=x", "WAYPOST_WEBHOOK_PROXY=http://u:hunter2@[::1]:3128/",
		"WAYPOST_TYPESENSE_PREFIX=shop-1_",
	))
	if err != nil {
		t.Fatal(err)
	}
	if want := []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("fd00::/8")}; !slices.Equal(cfg.Webhook.AllowCIDRs, want) {
		t.Errorf("networks %v, want %v", cfg.Webhook.AllowCIDRs, want)
	}
	if !slices.Equal(cfg.Webhook.Ports, []int{80, 443}) || cfg.Log.Level != slog.LevelWarn || cfg.Log.Format != config.FormatJSON {
		t.Errorf("ports %v, log %v", cfg.Webhook.Ports, cfg.Log)
	}
	if cfg.Temporal.UIURL != "https://ui.example.com/x" || cfg.Lead.PhoneRegion != "CN" {
		t.Errorf("UI %q, region %q", cfg.Temporal.UIURL, cfg.Lead.PhoneRegion)
	}
	if cfg.Webhook.Proxy != "http://u:hunter2@[::1]:3128/" {
		t.Errorf("proxy %v", cfg.Webhook.Proxy)
	}
	if !slices.Equal(cfg.Search.URLs, []string{"http://a:8108", "https://b"}) {
		t.Errorf("nodes %q", cfg.Search.URLs)
	}
	if cfg.Search.Prefix != "shop-1_" {
		t.Errorf("prefix %q", cfg.Search.Prefix)
	}
}

func TestLoadReportsEverythingAtOnceWithoutSecrets(t *testing.T) {
	t.Parallel()
	faults := []string{
		"WAYPOST_HTTP_ADDR=8080", "WAYPOST_ADMIN_ADDR=127.0.0.1:70000", "WAYPOST_DATABASE_URL=mysql://u:hunter2@h/db",
		"WAYPOST_REDIS_URL=http://:hunter2@h", "WAYPOST_ENCRYPTION_KEYS=k1:hunter2", "WAYPOST_TEMPORAL_ADDRESS=nowhere",
		"WAYPOST_TEMPORAL_UI_URL=ftp://x", "WAYPOST_WEBHOOK_ALLOW_CIDRS=10.0.0.1", "WAYPOST_WEBHOOK_PORTS=80,http",
		"WAYPOST_WEBHOOK_PROXY=https://u:hunter2@proxy:3128",
		"WAYPOST_TYPESENSE_URL=http://a,http://u:hunter2@b", "WAYPOST_TYPESENSE_PREFIX=a/b", "WAYPOST_PHONE_REGION=china", "WAYPOST_LOG_LEVEL=loud", "WAYPOST_LOG_FORMAT=xml",
	}
	_, _, err := config.Load(config.RoleGateway, faults)
	if err == nil {
		t.Fatal("no error")
	}
	lines := strings.Split(err.Error(), "\n")
	if len(lines) != len(faults) {
		t.Errorf("%d problems, want %d:\n%v", len(lines), len(faults), err)
	}
	for _, fault := range faults {
		name, _, _ := strings.Cut(fault, "=")
		if !slices.ContainsFunc(lines, func(l string) bool {
			return strings.HasPrefix(l, name+": ") && strings.Contains(l, "; for example "+name+"=")
		}) {
			t.Errorf("no line with an example for %s in:\n%v", name, err)
		}
	}
	if want := "WAYPOST_DATABASE_URL: must be sqlite:PATH or a postgres:// URL"; !strings.Contains(err.Error(), want) {
		t.Errorf("no line with %q in:\n%v", want, err)
	}
	if strings.Contains(err.Error(), "hunter2") {
		t.Errorf("a secret is shown:\n%v", err)
	}
}

func TestLoadTypesenseWithoutKey(t *testing.T) {
	t.Parallel()
	_, _, err := config.Load(config.RoleServe, needed("WAYPOST_TYPESENSE_API_KEY="))
	if err == nil || !strings.HasPrefix(err.Error(), "WAYPOST_TYPESENSE_API_KEY: is not set") {
		t.Errorf("got %v", err)
	}
}

func TestLoadSearchOrigins(t *testing.T) {
	t.Parallel()
	for set, want := range map[string]config.Origins{
		"*": {"*"}, "https://www.example.com": {"https://www.example.com"},
		"https://a.example, http://localhost:3000,http://[::1]:8080,https://xn--fsq.example": {"https://a.example", "http://localhost:3000", "http://[::1]:8080", "https://xn--fsq.example"},
	} {
		cfg, _, err := config.Load(config.RoleServe, needed("WAYPOST_SEARCH_ORIGINS="+set))
		if err != nil || !slices.Equal(cfg.Search.Origins, want) {
			t.Errorf("%s: got %q, %v; want %q", set, cfg.Search.Origins, err, want)
		}
	}
	for set, says := range map[string]string{
		"*,https://a.example": "alone", "null": "null", "https://*.example.com": "has a *", "https://a.example/": "slash", "https://a.example/x": "no path",
		"https://a.example?x": "no path", "a.example": "is no origin", "//a.example": "is no origin", "ftp://a.example": "is no origin", "https://u@a.example": "is no origin", "https://": "is no origin",
		"https://A.example": "lower case", "HTTPS://a.example": "lower case", "https://例.example": "punycode", "https://a.example:443": "without the port", "http://a.example:80": "without the port",
		"http://a.example:": "without the port", "https://a.example,,https://b.example": "empty", "https://a.example,https://a.example": "twice",
	} {
		_, _, err := config.Load(config.RoleServe, needed("WAYPOST_SEARCH_ORIGINS="+set))
		if err == nil || !strings.Contains(err.Error(), "WAYPOST_SEARCH_ORIGINS: ") || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v; want %q", set, err, says)
		}
	}
}

// HTTPS needs two files.
func TestLoadHalfATLS(t *testing.T) {
	t.Parallel()
	for set, want := range map[string]string{"WAYPOST_TLS_CERT=x": "WAYPOST_TLS_KEY: is not set, and WAYPOST_TLS_CERT is", "WAYPOST_TLS_KEY=x": "WAYPOST_TLS_CERT: is not set, and WAYPOST_TLS_KEY is"} {
		for _, role := range []config.Role{config.RoleGateway, config.RoleServe, config.RoleCodec} {
			if _, _, err := config.Load(role, needed(set)); err == nil || !strings.HasPrefix(err.Error(), want) {
				t.Errorf("%s, %s: %v", role, set, err)
			}
		}
	}
}

func TestLoadCodec(t *testing.T) {
	t.Parallel()
	cfg, _, err := config.Load(config.RoleCodec, needed(
		"WAYPOST_CODEC_OIDC_ISSUER=http://127.0.0.1:5556/dex/", "WAYPOST_CODEC_OIDC_AUDIENCE=temporal-ui, waypost",
		"WAYPOST_CODEC_OIDC_REQUIRE=groups=CN=ops,DC=example", "WAYPOST_DATABASE_URL=broken",
	))
	want := config.Config{
		Admin:      config.Admin{Addr: "127.0.0.1:9092"},
		Temporal:   config.Temporal{UIURL: "http://127.0.0.1:8233"},
		Encryption: config.Encryption{Keys: key},
		Codec: config.Codec{
			Addr: "127.0.0.1:8081", Issuer: "http://127.0.0.1:5556/dex/", Audiences: config.List{"temporal-ui", "waypost"},
			Require: config.Claim{Name: "groups", Value: "CN=ops,DC=example"},
		},
	}
	if err != nil || !reflect.DeepEqual(cfg, want) {
		t.Errorf("got  %#v\nwant %#v\nerror %v", cfg, want, err)
	}
	faults := []string{
		"WAYPOST_CODEC_ADDR=8081", "WAYPOST_CODEC_OIDC_ISSUER=http://login.example.com", "WAYPOST_CODEC_OIDC_AUDIENCE=a,,b", "WAYPOST_CODEC_OIDC_REQUIRE=operators",
	}
	_, _, err = config.Load(config.RoleCodec, needed(faults...))
	for _, fault := range faults {
		if name, _, _ := strings.Cut(fault, "="); err == nil || !strings.Contains(err.Error(), name+": ") {
			t.Errorf("nothing about %s: %v", name, err)
		}
	}
	if _, _, err = config.Load(config.RoleCodec, needed("WAYPOST_CODEC_OIDC_AUDIENCE=a,a")); err == nil || !strings.Contains(err.Error(), "twice") {
		t.Errorf("a doubled audience: %v", err)
	}
}

func TestLoadRetention(t *testing.T) {
	t.Parallel()
	const day = config.Age(24 * time.Hour)
	for _, role := range []config.Role{config.RoleWorker, config.RoleServe, config.RoleDev} {
		cfg, _, err := config.Load(role, needed("WAYPOST_TYPESENSE_URL=http://a", "WAYPOST_TYPESENSE_API_KEY=x", "WAYPOST_RETENTION_PAYLOADS=24h",
			"WAYPOST_RETENTION_DELIVERIES=off", "WAYPOST_RETENTION_ENROLLMENTS=P7D"))
		want := config.Retention{Payloads: day, Attempts: 90 * day, Enrollments: 7 * day, Events: 90 * day, EventCounts: 3 * 365 * day, Audit: 365 * day}
		if err != nil || cfg.Retention != want {
			t.Errorf("%s: got %+v, want %+v, error %v", role, cfg.Retention, want, err)
		}
	}
	for value, want := range map[string]string{
		"0":          `WAYPOST_RETENTION_EVENTS: "0" is less than 24h; write off to keep it for ever; for example WAYPOST_RETENTION_EVENTS=P30D`,
		"23h59m59s":  "less than 24h",
		"30d":        `"30d" is no time in hours or days; or write off, to keep it for ever; for example WAYPOST_RETENTION_EVENTS=P30D`,
		"-720h":      "less than 24h",
		"P0D":        "less than 24h",
		"P1000000D":  "is no time",
		"P30":        "is no time",
		"P-30D":      "is no time",
		"for ever":   "is no time",
		"P30D,P90D ": "is no time",
	} {
		_, _, err := config.Load(config.RoleServe, needed("WAYPOST_RETENTION_EVENTS="+value))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %s", value, err, want)
		}
	}
}

func TestLoadRequires(t *testing.T) {
	t.Parallel()
	for role, want := range map[config.Role][]string{
		config.RoleGateway: {"WAYPOST_DATABASE_URL", "WAYPOST_REDIS_URL", "WAYPOST_ENCRYPTION_KEYS", "WAYPOST_TYPESENSE_URL"},
		config.RoleServe:   {"WAYPOST_DATABASE_URL", "WAYPOST_REDIS_URL", "WAYPOST_ENCRYPTION_KEYS"},
		config.RoleWorker:  {"WAYPOST_DATABASE_URL", "WAYPOST_REDIS_URL", "WAYPOST_ENCRYPTION_KEYS", "WAYPOST_TYPESENSE_URL"},
		config.RoleCodec:   {"WAYPOST_ENCRYPTION_KEYS", "WAYPOST_CODEC_OIDC_ISSUER", "WAYPOST_CODEC_OIDC_AUDIENCE"},
		config.RoleApps:    {"WAYPOST_DATABASE_URL", "WAYPOST_ENCRYPTION_KEYS"},
		config.RoleKeys:    {"WAYPOST_DATABASE_URL", "WAYPOST_ENCRYPTION_KEYS"},
		config.RoleMigrate: {"WAYPOST_DATABASE_URL"},
		config.RoleClient:  nil,
		config.RoleDev:     nil,
	} {
		_, _, err := config.Load(role, nil)
		var got []string
		if err != nil {
			for line := range strings.SplitSeq(err.Error(), "\n") {
				name, rest, _ := strings.Cut(line, ": ")
				if !strings.HasPrefix(rest, "is not set, and "+string(role)+" needs it") {
					t.Errorf("%s: line %q", role, line)
				}
				got = append(got, name)
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s requires %q, want %q", role, got, want)
		}
	}
}

func TestLoadWarnings(t *testing.T) {
	t.Parallel()
	_, warnings, err := config.Load(config.RoleClient, []string{
		"WAYPOST_HTP_ADDR=x", "WAYPOST_TEMPORAL_ADRESS=x", "WAYPOST_SECRETKEY=hunter2",
		"WAYPOST_RETENTION_DELIVERYS=x", "WAYPOST_TEST_POSTGRES_URL=x", "WAYPOST_HTTP_ADDR=127.0.0.1:1", "OTHER=x", "OTEL_TRACES_EXPORTER=otlp",
	})
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"WAYPOST_HTP_ADDR is no setting of Waypost; the nearest one is WAYPOST_HTTP_ADDR",
		"WAYPOST_RETENTION_DELIVERYS is no setting of Waypost; the nearest one is WAYPOST_RETENTION_DELIVERIES",
		"WAYPOST_SECRETKEY is no setting of Waypost; the nearest one is WAYPOST_SECRET_KEY",
		"WAYPOST_TEMPORAL_ADRESS is no setting of Waypost; the nearest one is WAYPOST_TEMPORAL_ADDRESS",
	}
	if !slices.Equal(warnings, want) {
		t.Errorf("got %q", warnings)
	}
}

// The struct's tags and the table of variables name the same things, and what
// the table holds as default or example is accepted.
func TestVariablesAndStructAgree(t *testing.T) {
	t.Parallel()
	params, err := env.GetFieldParams(&config.Config{})
	if err != nil {
		t.Fatal(err)
	}
	var tags, names []string
	for _, p := range params {
		tags = append(tags, p.Key)
	}
	for _, v := range config.Variables() {
		names = append(names, v.Name)
		if len(v.Roles) == 0 || v.Help == "" || v.Example == "" || !strings.HasSuffix(v.Help, ".") {
			t.Errorf("%s: roles, one sentence of help and an example are needed", v.Name)
		}
		for _, role := range v.Required {
			if !slices.Contains(v.Roles, role) {
				t.Errorf("%s is required by %s, which does not read it", v.Name, role)
			}
		}
		example := v.Example
		if v.Name == "WAYPOST_ENCRYPTION_KEYS" {
			example = key
		}
		for _, value := range []string{v.Default, example} {
			if value == "" {
				continue
			}
			others := needed("WAYPOST_TLS_CERT=x", "WAYPOST_TLS_KEY=x", "WAYPOST_CONSOLE_ACCESS_KEY=x", "WAYPOST_CONSOLE_SECRET_KEY=x",
				"WAYPOST_CONSOLE_OIDC_ISSUER=https://x", "WAYPOST_CONSOLE_OIDC_CLIENT_ID=x")
			if _, _, err := config.Load(v.Roles[0], append(others, v.Name+"="+value)); err != nil {
				t.Errorf("%s=%s: %v", v.Name, value, err)
			}
		}
	}
	slices.Sort(tags)
	slices.Sort(names)
	if !slices.Equal(tags, names) {
		t.Errorf("tags  %q\nnames %q", tags, names)
	}
}

func TestSecretDoesNotShow(t *testing.T) {
	t.Parallel()
	cfg := config.Config{Encryption: config.Encryption{Keys: "hunter2"}, Search: config.Search{APIKey: "hunter2"}}
	encoded, err := json.Marshal(cfg)
	if err != nil {
		t.Fatal(err)
	}
	var logged strings.Builder
	slog.New(slog.NewTextHandler(&logged, nil)).Info("x", "config", cfg, "keys", cfg.Encryption.Keys)
	slog.New(slog.NewJSONHandler(&logged, nil)).Info("x", "config", cfg, "keys", cfg.Encryption.Keys)
	for _, s := range []string{fmt.Sprint(cfg), fmt.Sprintf("%+v %#v", cfg, cfg), fmt.Sprintf("%s %q", cfg.Encryption.Keys, cfg.Encryption.Keys), string(encoded), logged.String()} {
		if strings.Contains(s, "hunter2") || !strings.Contains(s, "redacted") {
			t.Errorf("the secret shows, or its place does not: %s", s)
		}
	}
}

func TestLogger(t *testing.T) {
	t.Parallel()
	var text, auto strings.Builder
	config.Log{Format: config.FormatText, Level: slog.LevelWarn}.Logger(&text).Info("hidden")
	config.Log{Format: config.FormatText}.Logger(&text).Info("shown", "lead", 7)
	config.Log{}.Logger(&auto).Info("shown", "lead", 7)
	if got := text.String(); strings.Contains(got, "hidden") || !strings.Contains(got, "msg=shown lead=7") {
		t.Errorf("text: %q", got)
	}
	if !json.Valid([]byte(auto.String())) {
		t.Errorf("what is no terminal gets JSON, not %q", auto.String())
	}
}

// The tables of docs/settings.md are what the program reads, in its order.
func TestSettingsPage(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile(filepath.Join("..", "docs", "settings.md"))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for line := range strings.Lines(string(page)) {
		if strings.HasPrefix(line, "| `WAYPOST_") {
			got = append(got, strings.TrimSpace(line))
		}
	}
	var want []string
	for _, v := range config.Variables() {
		value := "–"
		switch {
		case v.Default != "":
			value = "`" + v.Default + "`"
		case len(v.Required) > 0:
			value = "**needed**"
		}
		for _, role := range v.Roles {
			if d, ok := v.Defaults[role]; ok {
				value += fmt.Sprintf(" (%s: `%s`)", config.Roles{role}, d)
			}
		}
		want = append(want, fmt.Sprintf("| `%s` | %s | %s | %s |", v.Name, value, v.Roles, v.Help))
	}
	if !slices.Equal(got, want) {
		t.Errorf("the rows of docs/settings.md must be:\n%s", strings.Join(want, "\n"))
	}
}

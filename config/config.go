// Package config reads the settings of every role from the environment
// (docs/contract.md, "Settings"). A Config can also be filled by code: waypost-dev loads
// its own section and fills in the rest.
package config

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/caarlos0/env/v11"
)

// Role is a way to run Waypost. It decides which variables are read, which are
// required, and some defaults.
type Role string

// The roles.
const (
	RoleGateway Role = "gateway"
	RoleWorker  Role = "worker"
	RoleServe   Role = "serve"   // gateway and worker in one process
	RoleCodec   Role = "codec"   // the codec endpoint of Temporal's Web UI
	RoleConsole Role = "console" // the pages for people
	RoleMigrate Role = "migrate"
	RoleApps    Role = "apps"   // waypost apps …, directly on the database
	RoleUsers   Role = "users"  // waypost users …, directly on the database
	RoleKeys    Role = "keys"   // waypost keys …, directly on the database
	RoleClient  Role = "client" // commands that call a gateway
	RoleDev     Role = "dev"    // waypost-dev
)

// Config holds the settings of all roles; a role reads its own part. Addresses
// are host:port, where port 0 picks a free one.
type Config struct {
	DataDir    string `env:"WAYPOST_DATA_DIR"`
	HTTP       HTTP
	TLS        TLS
	Admin      Admin
	Database   Database
	Redis      Redis
	Temporal   Temporal
	Codec      Codec
	Console    Console
	Search     Search
	Encryption Encryption
	Webhook    Webhook
	Lead       Lead
	Retention  Retention
	Log        Log
	Client     Client
	Dev        Dev
}

// HTTP holds the address of the API, and the limit of requests by address.
type HTTP struct {
	Addr string `env:"WAYPOST_HTTP_ADDR"`
	// AddressRate is how many requests a second an address may send.
	AddressRate int `env:"WAYPOST_ADDRESS_RATE"`
	// MaxConnections bounds the connections of clients at a time, MaxConnectionsPerAddress
	// those of one address; 0: by the process's descriptors.
	MaxConnections           int `env:"WAYPOST_MAX_CONNECTIONS"`
	MaxConnectionsPerAddress int `env:"WAYPOST_MAX_CONNECTIONS_PER_ADDRESS"`
	// LeastRate is how many bytes a second a body must bring, and the client of an export read.
	LeastRate int `env:"WAYPOST_LEAST_RATE"`
	// TrustedProxies are networks of proxies whose X-Forwarded-For is believed, for
	// AddressRate only. MaxConnectionsPerAddress does not apply to them.
	TrustedProxies []netip.Prefix `env:"WAYPOST_TRUSTED_PROXIES"`
}

// TLS is the certificate of the gateway, the console and the codec endpoint. Without it they
// serve HTTP.
type TLS struct {
	// Cert is the path of a PEM file: the certificate, then the intermediate ones.
	Cert string `env:"WAYPOST_TLS_CERT"`
	Key  string `env:"WAYPOST_TLS_KEY"` // path of the PEM file of its key
}

// Admin is where a role serves /healthz and /readyz.
type Admin struct {
	Addr string `env:"WAYPOST_ADMIN_ADDR"`
}

// Database is our own SQL database, not Temporal's.
type Database struct {
	// URL is sqlite:PATH or postgres://….
	URL Secret `env:"WAYPOST_DATABASE_URL"`
}

// Redis is what gateways and workers share.
type Redis struct {
	// URL is redis://…, rediss://… or unix://….
	URL Secret `env:"WAYPOST_REDIS_URL"`
}

// Temporal says which Temporal service, namespace and task queue to use. TLS
// and API keys are read by the SDK's envconfig from TEMPORAL_….
type Temporal struct {
	Address   string `env:"WAYPOST_TEMPORAL_ADDRESS"`
	Namespace string `env:"WAYPOST_TEMPORAL_NAMESPACE"`
	TaskQueue string `env:"WAYPOST_TEMPORAL_TASK_QUEUE"`
	// UIURL is the base of the links to the Web UI in answers, without a slash
	// at its end.
	UIURL string `env:"WAYPOST_TEMPORAL_UI_URL"`
}

// Codec holds the address of the codec endpoint, and the tokens that it accepts.
type Codec struct {
	Addr string `env:"WAYPOST_CODEC_ADDR"`
	// Issuer is the URL of the tokens' OpenID Connect issuer, exactly as in their iss.
	Issuer string `env:"WAYPOST_CODEC_OIDC_ISSUER"`
	// Audiences are the accepted audiences: a token must have one of them in its aud.
	Audiences List `env:"WAYPOST_CODEC_OIDC_AUDIENCE"`
	// Require is a claim that a token must have. The zero Claim: none.
	Require Claim `env:"WAYPOST_CODEC_OIDC_REQUIRE"`
}

// Console is where people reach the console, and the application that it is.
type Console struct {
	Addr string `env:"WAYPOST_CONSOLE_ADDR"`
	// URL is what browsers know it by, without a slash at its end; "": http:// and Addr.
	URL string `env:"WAYPOST_CONSOLE_URL"`
	// GatewayURL is the gateway that it calls; "" in a process with one: that.
	GatewayURL string `env:"WAYPOST_CONSOLE_GATEWAY_URL"`
	// AccessKey is its application's; without one, serve has no console.
	AccessKey string `env:"WAYPOST_CONSOLE_ACCESS_KEY"`
	SecretKey Secret `env:"WAYPOST_CONSOLE_SECRET_KEY"`
	// Issuer is the URL of the OpenID Connect issuer that people can sign in at; "": none.
	Issuer       string     `env:"WAYPOST_CONSOLE_OIDC_ISSUER"`
	ClientID     string     `env:"WAYPOST_CONSOLE_OIDC_CLIENT_ID"`
	ClientSecret Secret     `env:"WAYPOST_CONSOLE_OIDC_CLIENT_SECRET"`
	Roles        RoleClaims `env:"WAYPOST_CONSOLE_OIDC_ROLES"`
	// SecondFactor is whom a second factor is asked of: off (nobody), admins, all.
	SecondFactor string `env:"WAYPOST_CONSOLE_SECOND_FACTOR"`
}

// ConsoleURL is what browsers know the console by.
func (c Config) ConsoleURL() string {
	if c.Console.URL == "" && c.TLS.Cert != "" {
		return "https://" + c.Console.Addr
	}
	return cmp.Or(c.Console.URL, "http://"+c.Console.Addr)
}

// RoleClaims are claims of people, each with the role that it gives them.
type RoleClaims []RoleClaim

// RoleClaim is a claim and the role that it gives.
type RoleClaim struct {
	Claim
	Role string
}

// List is a list of words, separated by commas.
type List []string

// Origins is a list of origins of pages, such as https://www.example.com.
type Origins []string

// Claim is a claim of a token and the value that it must have, or have in its list.
type Claim struct{ Name, Value string }

// Search is where articles are searched.
type Search struct {
	// URLs are the nodes of a Typesense server, http://… or https://…. None: the
	// embedded index in DataDir, which belongs to one process.
	URLs []string `env:"WAYPOST_TYPESENSE_URL"`
	// APIKey is Typesense's; it must allow collections, aliases and documents.
	APIKey Secret `env:"WAYPOST_TYPESENSE_API_KEY"`
	// Prefix begins all names in Typesense; empty: one of this database's own.
	Prefix string `env:"WAYPOST_TYPESENSE_PREFIX"`
	// Origins are the origins whose pages may search, written as by browsers; "*" alone
	// stands for all. Empty: none.
	Origins Origins `env:"WAYPOST_SEARCH_ORIGINS"`
}

// Encryption is about data at rest.
type Encryption struct {
	// Keys is id:base64,… as waypost.ParseKeyring reads it.
	Keys Secret `env:"WAYPOST_ENCRYPTION_KEYS"`
}

// Webhook bounds the addresses that webhooks may have.
type Webhook struct {
	// AllowCIDRs are networks that may be reached although they are private,
	// loopback or link-local. Empty: none.
	AllowCIDRs []netip.Prefix `env:"WAYPOST_WEBHOOK_ALLOW_CIDRS"`
	// Ports are the ports that may be reached. Empty: any.
	Ports []int `env:"WAYPOST_WEBHOOK_PORTS"`
	// Proxy is an http URL with a port; it may hold a password. Empty: none.
	Proxy Secret `env:"WAYPOST_WEBHOOK_PROXY"`
}

// Lead is about the leads' data.
type Lead struct {
	// PhoneRegion is the region of phone numbers without a country code: two
	// upper-case letters.
	PhoneRegion string `env:"WAYPOST_PHONE_REGION"`
}

// Retention says how long data is kept after its end.
type Retention struct {
	Payloads    Age `env:"WAYPOST_RETENTION_PAYLOADS"`
	Attempts    Age `env:"WAYPOST_RETENTION_ATTEMPTS"`
	Deliveries  Age `env:"WAYPOST_RETENTION_DELIVERIES"`
	Enrollments Age `env:"WAYPOST_RETENTION_ENROLLMENTS"`
	Events      Age `env:"WAYPOST_RETENTION_EVENTS"`
	EventCounts Age `env:"WAYPOST_RETENTION_EVENT_COUNTS"`
	Audit       Age `env:"WAYPOST_RETENTION_AUDIT"`
}

// Age is how long something is kept; 0 is for ever.
type Age time.Duration

// Log says what is logged and how.
type Log struct {
	Level slog.Level `env:"WAYPOST_LOG_LEVEL"`
	// Format is FormatText, FormatJSON, or "" for text on a terminal and JSON
	// otherwise.
	Format string `env:"WAYPOST_LOG_FORMAT"`
}

// Client holds the gateway's URL and the keys for client commands. Profile wins over URL and
// the keys.
type Client struct {
	Profile   string `env:"WAYPOST_PROFILE"` // path of a profile.json
	URL       string `env:"WAYPOST_URL"`     // without a slash at its end
	AccessKey string `env:"WAYPOST_ACCESS_KEY"`
	SecretKey Secret `env:"WAYPOST_SECRET_KEY"`
	Stage     string `env:"WAYPOST_STAGE"` // "": the gateway's default, release
	Actor     string `env:"WAYPOST_ACTOR"` // whom the audit log names; waypost apps and waypost users read it, too
}

// Dev holds the addresses of the servers that waypost-dev starts itself.
type Dev struct {
	TemporalAddr   string `env:"WAYPOST_DEV_TEMPORAL_ADDR"`
	TemporalUIAddr string `env:"WAYPOST_DEV_TEMPORAL_UI_ADDR"`
	ReceiverAddr   string `env:"WAYPOST_DEV_RECEIVER_ADDR"`
	RedisAddr      string `env:"WAYPOST_DEV_REDIS_ADDR"`
	// TemporalDatabaseURL is postgres://… for Temporal itself; "" is SQLite in
	// the data directory.
	TemporalDatabaseURL Secret `env:"WAYPOST_DEV_TEMPORAL_DATABASE_URL"`
}

// Load reads the variables of a role from environ (as os.Environ gives it). An
// empty variable counts as unset. The error names everything that is wrong at
// once, one line each; the warnings name WAYPOST_ variables that nothing reads.
// Neither ever holds the value of a secret.
func Load(role Role, environ []string) (Config, []string, error) {
	set := env.ToMap(environ)
	values := make(map[string]string, len(variables))
	var problems []error
	for _, v := range variables {
		if !slices.Contains(v.Roles, role) {
			continue
		}
		value := strings.TrimSpace(set[v.Name])
		var fault error
		switch {
		case value == "" && slices.Contains(v.Required, role):
			fault = fmt.Errorf("is not set, and %s needs it", role)
		case value == "":
			value = cmp.Or(v.Defaults[role], v.Default)
		case v.check != nil:
			fault = v.check(value)
		}
		if fault != nil {
			problems = append(problems, fmt.Errorf("%s: %w; for example %s=%s", v.Name, fault, v.Name, v.Example))
		} else if value != "" {
			values[v.Name] = value
		}
	}
	cfg, err := parse(values)
	if err != nil {
		problems = append(problems, err)
	}
	if len(cfg.Search.URLs) > 0 && cfg.Search.APIKey == "" {
		problems = append(problems, errors.New("WAYPOST_TYPESENSE_API_KEY: is not set, and Typesense needs one; it is the key that the server was started with, or one that was made with it"))
	}
	for _, pair := range []struct{ one, other, need string }{
		{"WAYPOST_TLS_CERT", "WAYPOST_TLS_KEY", "HTTPS needs both, HTTP neither"},
		{"WAYPOST_CONSOLE_ACCESS_KEY", "WAYPOST_CONSOLE_SECRET_KEY", "a console needs both"},
		{"WAYPOST_CONSOLE_OIDC_ISSUER", "WAYPOST_CONSOLE_OIDC_CLIENT_ID", "signing in at an issuer needs both"},
	} {
		if values[pair.one] == "" && values[pair.other] != "" {
			pair.one, pair.other = pair.other, pair.one
		}
		if values[pair.one] != "" && values[pair.other] == "" {
			problems = append(problems, fmt.Errorf("%s: is not set, and %s is; %s", pair.other, pair.one, pair.need))
		}
	}
	return cfg, warnings(set), errors.Join(problems...)
}

// parse fills a Config from variables that are set.
func parse(values map[string]string) (Config, error) {
	var cfg Config
	err := env.ParseWithOptions(&cfg, env.Options{Environment: values, FuncMap: map[reflect.Type]env.ParserFunc{
		reflect.TypeFor[[]netip.Prefix](): func(s string) (any, error) { return parsePrefixes(s) },
		reflect.TypeFor[[]int]():          func(s string) (any, error) { return parsePorts(s) },
		reflect.TypeFor[slog.Level]():     func(s string) (any, error) { return parseLevel(s) },
		reflect.TypeFor[Age]():            func(s string) (any, error) { return parseAge(s) },
		reflect.TypeFor[[]string]():       func(s string) (any, error) { return parseURLs(s) },
		reflect.TypeFor[List]():           func(s string) (any, error) { return parseList(s) },
		reflect.TypeFor[Origins]():        func(s string) (any, error) { return parseOrigins(s) },
		reflect.TypeFor[RoleClaims]():     func(s string) (any, error) { return parseRoleClaims(s) },
		reflect.TypeFor[Claim]():          func(s string) (any, error) { return parseClaim(s) },
	}})
	cfg.Temporal.UIURL = strings.TrimRight(cfg.Temporal.UIURL, "/")
	cfg.Client.URL = strings.TrimRight(cfg.Client.URL, "/")
	cfg.Console.URL = strings.TrimRight(cfg.Console.URL, "/")
	cfg.Console.GatewayURL = strings.TrimRight(cfg.Console.GatewayURL, "/")
	return cfg, err
}

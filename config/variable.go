package config

import (
	"fmt"
	"slices"
	"sort"
	"strings"
)

// Variable is one environment variable that Waypost reads.
type Variable struct {
	Name    string
	Default string // "" if there is none
	// Defaults are the defaults of roles that differ from Default.
	Defaults map[Role]string
	Roles    Roles  // that read it
	Required Roles  // that do not start without it
	Help     string // one sentence
	Example  string
	check    func(string) error
}

// Roles is a list of roles.
type Roles []Role

// String joins the roles with ", ".
func (r Roles) String() string {
	names := make([]string, len(r))
	for i, role := range r {
		names[i] = r.name(role)
	}
	return strings.Join(names, ", ")
}

// name is what people call a role: its command.
func (Roles) name(role Role) string {
	switch role {
	case RoleDev:
		return "waypost-dev"
	case RoleClient:
		return "client commands"
	}
	return string(role)
}

func (v Variable) defaultFor(role Role) string {
	if d, ok := v.Defaults[role]; ok {
		return d
	}
	return v.Default
}

// Variables lists every variable that this version reads, in the order of
// docs/settings.md.
func Variables() []Variable { return slices.Clone(variables) }

var (
	gatewayRoles = Roles{RoleGateway, RoleServe, RoleDev}
	httpsRoles   = Roles{RoleGateway, RoleServe, RoleCodec}
	codecRoles   = Roles{RoleCodec}
	serverRoles  = Roles{RoleGateway, RoleWorker, RoleServe, RoleDev}
	senderRoles  = Roles{RoleGateway, RoleWorker, RoleServe, RoleDev}
	workerRoles  = Roles{RoleWorker, RoleServe, RoleDev}
	devRoles     = Roles{RoleDev}
	clientRoles  = Roles{RoleClient}
)

var variables = []Variable{
	// Servers
	{
		Name: "WAYPOST_ADMIN_ADDR", Default: "127.0.0.1:9090", Defaults: map[Role]string{RoleWorker: "127.0.0.1:9091", RoleCodec: "127.0.0.1:9092"},
		Roles: Roles{RoleGateway, RoleWorker, RoleServe, RoleCodec, RoleDev},
		Help:  "Where /healthz, /readyz and /metrics are served.", Example: "0.0.0.0:9090", check: checkAddr,
	},
	{
		Name: "WAYPOST_DATABASE_URL", Roles: Roles{RoleGateway, RoleWorker, RoleServe, RoleMigrate, RoleApps, RoleKeys, RoleDev},
		Required: Roles{RoleGateway, RoleWorker, RoleServe, RoleMigrate, RoleApps, RoleKeys},
		Help:     "The SQL database: `sqlite:PATH` or `postgres://…`; waypost-dev has its own in the data directory.",
		Example:  "postgres://waypost:PASSWORD@127.0.0.1:5432/waypost", check: checkDatabaseURL,
	},
	{
		Name: "WAYPOST_REDIS_URL", Roles: serverRoles, Required: Roles{RoleGateway, RoleWorker, RoleServe},
		Help: "The Redis that all gateways and workers share; waypost-dev brings its own.", Example: "redis://127.0.0.1:6379/0", check: checkRedisURL,
	},
	{
		Name: "WAYPOST_ENCRYPTION_KEYS", Roles: Roles{RoleGateway, RoleWorker, RoleServe, RoleCodec, RoleApps, RoleKeys, RoleDev},
		Required: Roles{RoleGateway, RoleWorker, RoleServe, RoleCodec, RoleApps, RoleKeys},
		Help:     "Keys for data at rest and for Temporal's payloads, as a list of `id:base64` (32 bytes each); the first encrypts, all decrypt; waypost-dev makes its own.",
		Example:  "k1:$(openssl rand -base64 32)", check: checkKeys,
	},
	{
		Name: "WAYPOST_TEMPORAL_ADDRESS", Default: "127.0.0.1:7233", Roles: Roles{RoleGateway, RoleWorker, RoleServe, RoleMigrate, RoleKeys},
		Help: "Temporal's frontend.", Example: "temporal.internal:7233", check: checkAddr,
	},
	{
		Name: "WAYPOST_TEMPORAL_NAMESPACE", Default: "default", Roles: Roles{RoleGateway, RoleWorker, RoleServe, RoleMigrate, RoleKeys},
		Help: "Temporal's namespace.", Example: "waypost", check: anyValue,
	},
	{
		Name: "WAYPOST_TEMPORAL_TASK_QUEUE", Default: "waypost", Roles: Roles{RoleGateway, RoleWorker, RoleServe, RoleDev},
		Help: "The task queue that workers serve.", Example: "waypost", check: anyValue,
	},
	{
		Name: "WAYPOST_TYPESENSE_URL", Roles: serverRoles, Required: Roles{RoleGateway, RoleWorker},
		Help:    "The nodes of the Typesense that searches articles, as a comma separated list. If empty, serve and waypost-dev have an embedded index in `WAYPOST_DATA_DIR`; it belongs to one process, so a gateway or worker of its own needs Typesense.",
		Example: "http://127.0.0.1:8108", check: checkHTTPURLs,
	},
	{
		Name: "WAYPOST_TYPESENSE_API_KEY", Roles: serverRoles,
		Help: "Typesense's API key, with the right to manage collections, aliases and documents.", Example: "xyz…", check: anyValue,
	},
	{
		Name: "WAYPOST_WEBHOOK_ALLOW_CIDRS", Roles: senderRoles,
		Help: "Networks that webhooks may reach although they are private, loopback or link-local; waypost-dev adds 127.0.0.0/8.", Example: "10.1.0.0/16,127.0.0.0/8", check: checkPrefixes,
	},
	{
		Name: "WAYPOST_WEBHOOK_PORTS", Roles: senderRoles,
		Help: "The only ports that webhooks may reach; any if empty.", Example: "80,443", check: checkPorts,
	},
	{
		Name: "WAYPOST_WEBHOOK_PROXY", Roles: senderRoles,
		Help: "A proxy that makes the connections to webhooks (`CONNECT`, also for `http`), to addresses that were checked before; none if empty. `HTTPS_PROXY` and its like are not heeded.", Example: "http://user:password@proxy.internal:3128", check: checkProxy,
	},
	{
		Name: "WAYPOST_LOG_LEVEL", Default: "info", Roles: Roles{RoleGateway, RoleWorker, RoleServe, RoleCodec, RoleMigrate, RoleDev},
		Help: "The least level that is logged: debug, info, warn or error.", Example: "debug", check: checkLevel,
	},
	{
		Name: "WAYPOST_LOG_FORMAT", Roles: Roles{RoleGateway, RoleWorker, RoleServe, RoleCodec, RoleMigrate, RoleDev},
		Help: "text or json; if empty, text on a terminal and json otherwise.", Example: "json", check: oneOf(FormatText, FormatJSON),
	},
	// The API
	{
		Name: "WAYPOST_HTTP_ADDR", Default: "127.0.0.1:8080", Roles: gatewayRoles,
		Help: "Where the gateway serves its API.", Example: "0.0.0.0:8080", check: checkAddr,
	},
	{
		Name: "WAYPOST_TLS_CERT", Roles: httpsRoles,
		Help:    "A PEM file with the certificate that the API, or the codec endpoint, is served with over HTTPS, then those between it and the authority's; a new one is taken within a minute. HTTP if empty.",
		Example: "/etc/waypost/tls.crt", check: anyValue,
	},
	{
		Name: "WAYPOST_TLS_KEY", Roles: httpsRoles,
		Help: "The PEM file of the certificate's key.", Example: "/etc/waypost/tls.key", check: anyValue,
	},
	{
		Name: "WAYPOST_TEMPORAL_UI_URL", Default: "http://127.0.0.1:8233", Roles: Roles{RoleGateway, RoleServe, RoleCodec},
		Help:    "The base of the links to Temporal's Web UI in answers; the codec endpoint answers pages of its origin, and of no other one.",
		Example: "https://temporal.example.com", check: checkHTTPURL,
	},
	{
		Name: "WAYPOST_SEARCH_ORIGINS", Roles: gatewayRoles,
		Help:    "The origins whose pages may search articles from a browser (CORS), as a comma separated list, or `*` for all; none if empty.",
		Example: "https://www.example.com,https://help.example.com:8443", check: checkOrigins,
	},
	{
		Name: "WAYPOST_TRUSTED_PROXIES", Roles: gatewayRoles,
		Help: "Networks of proxies whose `X-Forwarded-For` is believed, for the address limit only.", Example: "10.0.0.0/8", check: checkPrefixes,
	},
	{
		Name: "WAYPOST_ADDRESS_RATE", Default: "50", Defaults: map[Role]string{RoleDev: "10000"}, Roles: gatewayRoles,
		Help: "Requests a second that one address may send, an IPv6 /64 counting as one; twice as many at once.", Example: "200", check: checkRate,
	},
	{
		Name: "WAYPOST_PHONE_REGION", Default: "CN", Roles: gatewayRoles,
		Help: "The region of phone numbers that have no country code.", Example: "DE", check: checkRegion,
	},
	// Workers
	{
		Name: "WAYPOST_RETENTION_PAYLOADS", Default: "P30D", Roles: workerRoles,
		Help:    "How long after the end of an enrollment its messages, what was answered and its params are kept, after the end of a launch who its filter was for, and after the end of an import why rows failed: at least 24h, or `off` for ever, here and below.",
		Example: "P14D", check: checkAge,
	},
	{
		Name: "WAYPOST_RETENTION_ATTEMPTS", Default: "P90D", Roles: workerRoles,
		Help: "The same for all attempts of a delivery but the last.", Example: "720h", check: checkAge,
	},
	{
		Name: "WAYPOST_RETENTION_DELIVERIES", Default: "P90D", Roles: workerRoles,
		Help: "The same for deliveries, which take what is left of their attempts and messages along.", Example: "P180D", check: checkAge,
	},
	{
		Name: "WAYPOST_RETENTION_ENROLLMENTS", Default: "P90D", Roles: workerRoles,
		Help: "The same for enrollments, which take their deliveries along.", Example: "off", check: checkAge,
	},
	{
		Name: "WAYPOST_RETENTION_EVENTS", Default: "P90D", Roles: workerRoles,
		Help: "How long an event is kept after it was accepted, and while an enrollment may still match it.", Example: "P30D", check: checkAge,
	},
	// The codec endpoint
	{
		Name: "WAYPOST_CODEC_ADDR", Default: "127.0.0.1:8081", Roles: codecRoles,
		Help: "Where the codec endpoint of Temporal's Web UI is served.", Example: "0.0.0.0:8081", check: checkAddr,
	},
	{
		Name: "WAYPOST_CODEC_OIDC_ISSUER", Roles: codecRoles, Required: codecRoles,
		Help:    "The OpenID Connect issuer whose tokens open the codec endpoint, exactly as it calls itself, a slash at the end included.",
		Example: "https://login.example.com/realms/ops", check: checkIssuer,
	},
	{
		Name: "WAYPOST_CODEC_OIDC_AUDIENCE", Roles: codecRoles, Required: codecRoles,
		Help:    "Whom a token must be for (`aud`), one of a comma separated list: for ID tokens the client id of Temporal's Web UI.",
		Example: "temporal-ui", check: checkList,
	},
	{
		Name: "WAYPOST_CODEC_OIDC_REQUIRE", Roles: codecRoles,
		Help:    "A claim that a token must have, as CLAIM=VALUE, by itself or in a list; if empty, everybody with a token for the audience can read payloads.",
		Example: "groups=operators", check: checkClaim,
	},
	// Client commands
	{
		Name: "WAYPOST_PROFILE", Roles: clientRoles,
		Help: "A JSON file with `url`, `accessKey` and `secretKey`; it wins over the next three.", Example: "./.waypost/profile.json", check: anyValue,
	},
	{
		Name: "WAYPOST_URL", Roles: clientRoles,
		Help: "The gateway to call.", Example: "http://127.0.0.1:8080", check: checkGatewayURL,
	},
	{
		Name: "WAYPOST_ACCESS_KEY", Roles: clientRoles,
		Help: "The access key to sign with.", Example: "AK…", check: anyValue,
	},
	{
		Name: "WAYPOST_SECRET_KEY", Roles: clientRoles,
		Help: "The secret key to sign with.", Example: "sk_…", check: anyValue,
	},
	{
		Name: "WAYPOST_STAGE", Roles: clientRoles,
		Help: "The stage that client commands work in: release, pre-release or test; release if empty.", Example: "test", check: oneOf("release", "pre-release", "test"),
	},
	// waypost-dev
	{
		Name: "WAYPOST_DATA_DIR", Default: "./.waypost", Roles: Roles{RoleServe, RoleDev, RoleClient},
		Help: "Where waypost-dev keeps its data and profile.json, serve its embedded index, and where client commands look for a profile last.", Example: "/var/lib/waypost", check: anyValue,
	},
	{
		Name: "WAYPOST_DEV_TEMPORAL_ADDR", Default: "127.0.0.1:7233", Roles: devRoles,
		Help: "Where the embedded Temporal server listens; port 0 picks a free port, here and below.", Example: "127.0.0.1:0", check: checkAddr,
	},
	{
		Name: "WAYPOST_DEV_TEMPORAL_UI_ADDR", Default: "127.0.0.1:8233", Roles: devRoles,
		Help: "Where its Web UI listens.", Example: "127.0.0.1:0", check: checkAddr,
	},
	{
		Name: "WAYPOST_DEV_RECEIVER_ADDR", Default: "127.0.0.1:8090", Roles: devRoles,
		Help: "Where the demo webhook receiver listens.", Example: "127.0.0.1:0", check: checkAddr,
	},
	{
		Name: "WAYPOST_DEV_REDIS_ADDR", Default: "127.0.0.1:6380", Roles: devRoles,
		Help: "Where the Redis stand-in listens.", Example: "127.0.0.1:0", check: checkAddr,
	},
	{
		Name: "WAYPOST_DEV_TEMPORAL_DATABASE_URL", Roles: devRoles,
		Help:    "A `postgres://…` URL that puts the embedded Temporal on PostgreSQL; SQLite in the data directory if empty.",
		Example: "postgres://temporal:PASSWORD@127.0.0.1:5432/temporal", check: checkPostgresURL,
	},
}

// testPrefix begins the names that only the test suite reads.
const testPrefix = "WAYPOST_TEST_"

// warnings names what is set, looks like ours and is read by nothing.
func warnings(set map[string]string) []string {
	var out []string
	for name := range set {
		switch {
		case !strings.HasPrefix(name, "WAYPOST_") || strings.HasPrefix(name, testPrefix):
		case slices.ContainsFunc(variables, func(v Variable) bool { return v.Name == name }):
		default:
			out = append(out, fmt.Sprintf("%s is no setting of Waypost; the nearest one is %s", name, nearest(name)))
		}
	}
	sort.Strings(out)
	return out
}

func nearest(name string) string {
	best, least := "", -1
	for _, v := range variables {
		if d := distance(name, v.Name); least < 0 || d < least {
			best, least = v.Name, d
		}
	}
	return best
}

// distance is Levenshtein's: the insertions, deletions and replacements of one
// byte that turn a into b.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost++
			}
			diagonal = row[j+1]
			row[j+1] = min(cost, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}

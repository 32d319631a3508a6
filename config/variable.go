package config

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Variable is one environment variable that Waypost reads.
type Variable struct {
	Name    string
	Default string // "" if there is none
	// Defaults are the defaults of roles that differ from Default.
	Defaults map[Role]string
	Roles    Roles              // that read it
	Required Roles              // that do not start without it
	Help     string             // one sentence
	Example  string             // a value
	check    func(string) error // what is wrong with a value; nil takes any
}

// Roles is a list of roles.
type Roles []Role

// String joins what people call the roles with ", ".
func (r Roles) String() string {
	spoken := map[Role]string{RoleDev: "waypost-dev", RoleClient: "client commands"}
	names := make([]string, len(r))
	for i, role := range r {
		names[i] = cmp.Or(spoken[role], string(role))
	}
	return strings.Join(names, ", ")
}

// Variables lists every variable that this version reads, in the order of
// docs/settings.md.
func Variables() []Variable { return slices.Clone(variables) }

var (
	gatewayRoles  = Roles{RoleGateway, RoleServe, RoleDev}
	workerRoles   = Roles{RoleWorker, RoleServe, RoleDev}
	serverRoles   = Roles{RoleGateway, RoleWorker, RoleServe, RoleDev}
	adminRoles    = Roles{RoleGateway, RoleWorker, RoleServe, RoleCodec, RoleConsole, RoleDev}
	logRoles      = Roles{RoleGateway, RoleWorker, RoleServe, RoleCodec, RoleConsole, RoleMigrate, RoleDev}
	temporalRoles = Roles{RoleGateway, RoleWorker, RoleServe, RoleMigrate, RoleKeys}
	httpRoles     = Roles{RoleGateway, RoleServe, RoleCodec}
	clientFacing  = Roles{RoleGateway, RoleServe, RoleCodec, RoleConsole, RoleDev}
	certRoles     = Roles{RoleGateway, RoleServe, RoleCodec, RoleConsole}
	redisRoles    = Roles{RoleGateway, RoleWorker, RoleServe, RoleConsole, RoleDev}
	codecRoles    = Roles{RoleCodec}
	consoleRoles  = Roles{RoleServe, RoleConsole}
	clientRoles   = Roles{RoleClient}
	devRoles      = Roles{RoleDev}
)

var variables = []Variable{
	// Servers
	{Name: "WAYPOST_ADMIN_ADDR", Default: "127.0.0.1:9090",
		Defaults: map[Role]string{RoleWorker: "127.0.0.1:9091", RoleCodec: "127.0.0.1:9092", RoleConsole: "127.0.0.1:9093"}, Roles: adminRoles,
		Example: "0.0.0.0:9090", check: checkAddr, Help: "Where /healthz, /readyz and /metrics are served."},
	{Name: "WAYPOST_DATABASE_URL",
		Roles:    Roles{RoleGateway, RoleWorker, RoleServe, RoleConsole, RoleMigrate, RoleApps, RoleUsers, RoleKeys, RoleDev},
		Required: Roles{RoleGateway, RoleWorker, RoleServe, RoleConsole, RoleMigrate, RoleApps, RoleUsers, RoleKeys},
		Example:  "postgres://waypost:PASSWORD@127.0.0.1:5432/waypost", check: checkDatabaseURL,
		Help: "The SQL database: `sqlite:PATH` or `postgres://…`; waypost-dev has its own in the data directory."},
	{Name: "WAYPOST_REDIS_URL", Roles: redisRoles, Required: Roles{RoleGateway, RoleWorker, RoleServe, RoleConsole},
		Example: "redis://127.0.0.1:6379/0", check: checkRedisURL,
		Help: "The Redis that all gateways, workers and consoles share; waypost-dev brings its own."},
	{Name: "WAYPOST_ENCRYPTION_KEYS",
		Roles:    Roles{RoleGateway, RoleWorker, RoleServe, RoleCodec, RoleConsole, RoleApps, RoleUsers, RoleKeys, RoleDev},
		Required: Roles{RoleGateway, RoleWorker, RoleServe, RoleCodec, RoleConsole, RoleApps, RoleUsers, RoleKeys},
		Example:  "k1:$(openssl rand -base64 32)", check: checkKeys,
		Help: "Keys for data at rest and for Temporal's payloads, as a list of `id:base64` (32 bytes each); the first encrypts, all decrypt; waypost-dev makes its own."},
	{Name: "WAYPOST_TEMPORAL_ADDRESS", Default: "127.0.0.1:7233", Roles: temporalRoles,
		Example: "temporal.internal:7233", check: checkAddr, Help: "Temporal's frontend."},
	{Name: "WAYPOST_TEMPORAL_NAMESPACE", Default: "default", Roles: temporalRoles, Example: "waypost",
		Help: "Temporal's namespace."},
	{Name: "WAYPOST_TEMPORAL_TASK_QUEUE", Default: "waypost", Roles: serverRoles, Example: "waypost",
		Help: "The task queue that workers serve."},
	{Name: "WAYPOST_TYPESENSE_URL", Roles: serverRoles, Required: Roles{RoleGateway, RoleWorker},
		Example: "http://127.0.0.1:8108", check: parsed(parseURLs),
		Help: "The nodes of the Typesense that searches articles, as a comma separated list. If empty, serve and waypost-dev have an embedded index in `WAYPOST_DATA_DIR`; it belongs to one process, so a gateway or worker of its own needs Typesense."},
	{Name: "WAYPOST_TYPESENSE_API_KEY", Roles: serverRoles, Example: "xyz…",
		Help: "Typesense's API key, with the right to manage collections, aliases and documents."},
	{Name: "WAYPOST_TYPESENSE_PREFIX", Roles: serverRoles, Example: "waypost_shop_", check: checkTypesensePrefix,
		Help: "What the names of this installation's alias and collections in Typesense begin with; gateways and workers of one database need the same. If empty, `waypost_`, an id that the database keeps, and `_`."},
	{Name: "WAYPOST_WEBHOOK_ALLOW_CIDRS", Roles: serverRoles, Example: "10.1.0.0/16,127.0.0.0/8",
		check: parsed(parsePrefixes),
		Help:  "Networks that webhooks may reach although they are private, loopback or link-local; waypost-dev adds 127.0.0.0/8."},
	{Name: "WAYPOST_WEBHOOK_PORTS", Roles: serverRoles, Example: "80,443", check: parsed(parsePorts),
		Help: "The only ports that webhooks may reach; any if empty."},
	{Name: "WAYPOST_WEBHOOK_PROXY", Roles: serverRoles, Example: "http://user:password@proxy.internal:3128",
		check: checkProxy,
		Help:  "A proxy that makes the connections to webhooks (`CONNECT`, also for `http`), to addresses that were checked before; none if empty. `HTTPS_PROXY` and its like are not heeded."},
	{Name: "WAYPOST_LOG_LEVEL", Default: "info", Roles: logRoles, Example: "debug", check: parsed(parseLevel),
		Help: "The least level that is logged: debug, info, warn or error."},
	{Name: "WAYPOST_LOG_FORMAT", Roles: logRoles, Example: "json", check: oneOf(FormatText, FormatJSON),
		Help: "text or json; if empty, text on a terminal and json otherwise."},
	// The API
	{Name: "WAYPOST_HTTP_ADDR", Default: "127.0.0.1:8080", Roles: gatewayRoles, Example: "0.0.0.0:8080",
		check: checkAddr, Help: "Where the gateway serves its API."},
	{Name: "WAYPOST_TLS_CERT", Roles: certRoles, Example: "/etc/waypost/tls.crt",
		Help: "A PEM file with the certificate that the API, the console and the codec endpoint are served with over HTTPS, then those between it and the authority's; a new one is taken within a minute. HTTP if empty."},
	{Name: "WAYPOST_TLS_KEY", Roles: certRoles, Example: "/etc/waypost/tls.key",
		Help: "The PEM file of the certificate's key."},
	{Name: "WAYPOST_TEMPORAL_UI_URL", Default: "http://127.0.0.1:8233", Roles: httpRoles,
		Example: "https://temporal.example.com", check: parsed(parseHTTPURL),
		Help: "The base of the links to Temporal's Web UI in answers; the codec endpoint answers pages of its origin, and of no other one."},
	{Name: "WAYPOST_SEARCH_ORIGINS", Roles: gatewayRoles,
		Example: "https://www.example.com,https://help.example.com:8443", check: parsed(parseOrigins),
		Help: "The origins whose pages may search articles from a browser (CORS), as a comma separated list, or `*` for all; none if empty."},
	{Name: "WAYPOST_TRUSTED_PROXIES", Roles: clientFacing, Example: "10.0.0.0/8", check: parsed(parsePrefixes),
		Help: "Networks of proxies whose `X-Forwarded-For` is believed, for the address limit and the tries of passwords only; `WAYPOST_MAX_CONNECTIONS_PER_ADDRESS` does not apply to them."},
	{Name: "WAYPOST_ADDRESS_RATE", Default: "50", Defaults: map[Role]string{RoleDev: "10000"},
		Roles: gatewayRoles, Example: "200", check: checkRate,
		Help: "Requests a second that one address may send, an IPv6 /64 counting as one; twice as many at once."},
	{Name: "WAYPOST_MAX_CONNECTIONS", Roles: clientFacing, Example: "4096", check: checkConnections,
		Help: "Connections of clients that the process holds at a time, of which a console within serve gets a quarter. If empty, half of the process's file descriptors, an eighth where it has a worker, and 10000 at most."},
	{Name: "WAYPOST_MAX_CONNECTIONS_PER_ADDRESS", Roles: clientFacing, Example: "500", check: checkConnections,
		Help: "Connections that one address holds at a time at a port, an IPv6 /64 counting as one. If empty, half of those that the port holds."},
	{Name: "WAYPOST_LEAST_RATE", Default: "4096", Roles: gatewayRoles, Example: "16384", check: checkLeastRate,
		Help: "Bytes a second that a body must bring and the client of an export must read, over every 10 seconds; what is slower is cut off. 0: any number."},
	{Name: "WAYPOST_PHONE_REGION", Default: "CN", Roles: gatewayRoles, Example: "DE", check: checkRegion,
		Help: "The region of phone numbers that have no country code."},
	// Workers
	{Name: "WAYPOST_RETENTION_PAYLOADS", Default: "P30D", Roles: workerRoles, Example: "P14D",
		check: parsed(parseAge),
		Help:  "How long after the end of an enrollment its messages, what was answered and its params are kept, after the end of a launch who its filter was for, and after the end of an import why rows failed: at least 24h, or `off` for ever, here and below."},
	{Name: "WAYPOST_RETENTION_ATTEMPTS", Default: "P90D", Roles: workerRoles, Example: "720h",
		check: parsed(parseAge), Help: "The same for all attempts of a delivery but the last."},
	{Name: "WAYPOST_RETENTION_DELIVERIES", Default: "P90D", Roles: workerRoles, Example: "P180D",
		check: parsed(parseAge),
		Help:  "The same for deliveries, which take what is left of their attempts and messages along."},
	{Name: "WAYPOST_RETENTION_ENROLLMENTS", Default: "P90D", Roles: workerRoles, Example: "off",
		check: parsed(parseAge), Help: "The same for enrollments, which take their deliveries along."},
	{Name: "WAYPOST_RETENTION_EVENTS", Default: "P90D", Roles: serverRoles, Example: "P30D",
		check: parsed(parseAge),
		Help:  "How long an event is kept after it was accepted, and while an enrollment may still match it. Conditions that ask for properties further back are refused; give gateways and workers the same."},
	{Name: "WAYPOST_RETENTION_EVENT_COUNTS", Default: "P3Y", Roles: serverRoles, Example: "P5Y",
		check: parsed(parseAge),
		Help:  "How long it is kept how many events of a name a lead has had on each day, which conditions with `events(…).count()` look at; as long as events at least."},
	{Name: "WAYPOST_RETENTION_AUDIT", Default: "P365D", Roles: workerRoles, Example: "P730D",
		check: parsed(parseAge), Help: "How long an entry of the audit log is kept."},
	// The codec endpoint
	{Name: "WAYPOST_CODEC_ADDR", Default: "127.0.0.1:8081", Roles: codecRoles, Example: "0.0.0.0:8081",
		check: checkAddr, Help: "Where the codec endpoint of Temporal's Web UI is served."},
	{Name: "WAYPOST_CODEC_OIDC_ISSUER", Roles: codecRoles, Required: codecRoles,
		Example: "https://login.example.com/realms/ops", check: checkIssuer,
		Help: "The OpenID Connect issuer whose tokens open the codec endpoint, exactly as it calls itself, a slash at the end included."},
	{Name: "WAYPOST_CODEC_OIDC_AUDIENCE", Roles: codecRoles, Required: codecRoles, Example: "temporal-ui",
		check: parsed(parseList),
		Help:  "Whom a token must be for (`aud`), one of a comma separated list: for ID tokens the client id of Temporal's Web UI."},
	{Name: "WAYPOST_CODEC_OIDC_REQUIRE", Roles: codecRoles, Example: "groups=operators",
		check: parsed(parseClaim),
		Help:  "A claim that a token must have, as CLAIM=VALUE, by itself or in a list; if empty, everybody with a token for the audience can read payloads."},
	// The console
	{Name: "WAYPOST_CONSOLE_ADDR", Default: "127.0.0.1:8082", Roles: Roles{RoleServe, RoleConsole, RoleUsers, RoleDev}, Example: "0.0.0.0:8082",
		check: checkAddr, Help: "Where the console is served."},
	{Name: "WAYPOST_CONSOLE_URL", Roles: Roles{RoleServe, RoleConsole, RoleUsers}, Example: "https://console.example.com", check: checkGatewayURL,
		Help: "What people's browsers know the console by, for sign-in links; with https, its cookies are sent over HTTPS only. http:// and `WAYPOST_CONSOLE_ADDR` if empty."},
	{Name: "WAYPOST_CONSOLE_GATEWAY_URL", Roles: consoleRoles, Required: Roles{RoleConsole}, Example: "http://127.0.0.1:8080",
		check: checkGatewayURL, Help: "The gateway that the console calls; serve calls its own one if empty."},
	{Name: "WAYPOST_CONSOLE_ACCESS_KEY", Roles: consoleRoles, Required: Roles{RoleConsole}, Example: "AK…",
		Help: "The access key of the application that the console is; without it, serve has no console. waypost-dev has its own."},
	{Name: "WAYPOST_CONSOLE_SECRET_KEY", Roles: consoleRoles, Required: Roles{RoleConsole}, Example: "sk_…",
		Help: "The secret key of that application."},
	{Name: "WAYPOST_CONSOLE_OIDC_ISSUER", Roles: consoleRoles, Example: "https://login.example.com/realms/staff", check: checkIssuer,
		Help: "The OpenID Connect issuer that people can sign in at, exactly as it calls itself; none if empty."},
	{Name: "WAYPOST_CONSOLE_OIDC_CLIENT_ID", Roles: consoleRoles, Example: "waypost-console",
		Help: "The client id that the console has at the issuer; its redirect URI there is `WAYPOST_CONSOLE_URL` and /sign-in/oidc/callback."},
	{Name: "WAYPOST_CONSOLE_OIDC_CLIENT_SECRET", Roles: consoleRoles, Example: "xyz…",
		Help: "The client secret there; empty for a public client."},
	{Name: "WAYPOST_CONSOLE_OIDC_ROLES", Roles: consoleRoles, Example: "groups=marketing:marketer,groups=ops:admin", check: parsed(parseRoleClaims),
		Help: "Roles that claims give, as a list of CLAIM=VALUE:ROLE; whoever has none of them must be a user already, by e-mail address."},
	{Name: "WAYPOST_CONSOLE_SECOND_FACTOR", Default: "admins", Defaults: map[Role]string{RoleDev: "off"},
		Roles: Roles{RoleServe, RoleConsole, RoleDev}, Example: "all", check: oneOf("off", "admins", "all"),
		Help: "Who must have a second factor beside a password or a link: off (nobody), admins, all. Who has none sets one up at the next sign-in; an issuer asks for its own."},
	// Client commands
	{Name: "WAYPOST_PROFILE", Roles: clientRoles, Example: "./.waypost/profile.json",
		Help: "A JSON file with `url`, `accessKey` and `secretKey`; it wins over the next three."},
	{Name: "WAYPOST_URL", Roles: clientRoles, Example: "http://127.0.0.1:8080", check: checkGatewayURL,
		Help: "The gateway to call."},
	{Name: "WAYPOST_ACCESS_KEY", Roles: clientRoles, Example: "AK…",
		Help: "The access key to sign with."},
	{Name: "WAYPOST_SECRET_KEY", Roles: clientRoles, Example: "sk_…",
		Help: "The secret key to sign with."},
	{Name: "WAYPOST_STAGE", Roles: clientRoles, Example: "test", check: oneOf("release", "pre-release", "test"),
		Help: "The stage that client commands work in: release, pre-release or test; release if empty."},
	{Name: "WAYPOST_ACTOR", Roles: Roles{RoleApps, RoleUsers, RoleClient}, Example: "ada@example.com", check: checkActor,
		Help: "Who you are, for the audit log, in up to 200 characters; if empty, client commands name nobody, and `waypost apps` and `waypost users` name the user of the system."},
	// waypost-dev
	{Name: "WAYPOST_DATA_DIR", Default: "./.waypost", Roles: Roles{RoleServe, RoleDev, RoleClient},
		Example: "/var/lib/waypost",
		Help:    "Where waypost-dev keeps its data and profile.json, serve its embedded index, and where client commands look for a profile last."},
	{Name: "WAYPOST_DEV_TEMPORAL_ADDR", Default: "127.0.0.1:7233", Roles: devRoles, Example: "127.0.0.1:0",
		check: checkAddr,
		Help:  "Where the embedded Temporal server listens; port 0 picks a free port, here and below."},
	{Name: "WAYPOST_DEV_TEMPORAL_UI_ADDR", Default: "127.0.0.1:8233", Roles: devRoles, Example: "127.0.0.1:0",
		check: checkAddr, Help: "Where its Web UI listens."},
	{Name: "WAYPOST_DEV_RECEIVER_ADDR", Default: "127.0.0.1:8090", Roles: devRoles, Example: "127.0.0.1:0",
		check: checkAddr, Help: "Where the demo webhook receiver listens."},
	{Name: "WAYPOST_DEV_REDIS_ADDR", Default: "127.0.0.1:6380", Roles: devRoles, Example: "127.0.0.1:0",
		check: checkAddr, Help: "Where the Redis stand-in listens."},
	{Name: "WAYPOST_DEV_TEMPORAL_DATABASE_URL", Roles: devRoles,
		Example: "postgres://temporal:PASSWORD@127.0.0.1:5432/temporal", check: checkPostgresURL,
		Help: "A `postgres://…` URL that puts the embedded Temporal on PostgreSQL; SQLite in the data directory if empty."},
}

// testPrefix begins the names that only the test suite reads.
const testPrefix = "WAYPOST_TEST_"

// warnings names what is set, looks like ours and is read by nothing.
func warnings(set map[string]string) []string {
	var out []string
	for _, name := range slices.Sorted(maps.Keys(set)) {
		isRead := slices.ContainsFunc(variables, func(v Variable) bool { return v.Name == name })
		if strings.HasPrefix(name, "WAYPOST_") && !strings.HasPrefix(name, testPrefix) && !isRead {
			out = append(out, fmt.Sprintf("%s is no setting of Waypost; the nearest one is %s", name, nearest(name)))
		}
	}
	return out
}

func nearest(name string) string {
	return slices.MinFunc(variables, func(a, b Variable) int {
		return cmp.Compare(distance(name, a.Name), distance(name, b.Name))
	}).Name
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

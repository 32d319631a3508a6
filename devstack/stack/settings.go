package stack

import (
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"waypost/config"
	"waypost/devstack/datadir"
	"waypost/devstack/temporal"
)

// loopback is what waypost-dev lets webhooks reach (docs/contract.md, "Commands").
const loopback = "127.0.0.0/8"

// settings are the variables with which a role works on this stack, in this process or in
// one of its own. A variable of the environment that names a part which is left out stays.
func (s *Stack) settings(cfg config.Config, state datadir.State, environ map[string]string) map[string]string {
	or := func(name, value string) string {
		if set := strings.TrimSpace(environ[name]); set != "" {
			return set
		}
		return value
	}
	set := map[string]string{
		"WAYPOST_DATA_DIR":              s.dir.Path(),
		"WAYPOST_PROFILE":               s.dir.File(datadir.ProfileFile),
		"WAYPOST_HTTP_ADDR":             cfg.HTTP.Addr,
		"WAYPOST_ADDRESS_RATE":          strconv.Itoa(cfg.HTTP.AddressRate),
		"WAYPOST_DATABASE_URL":          "sqlite:" + s.dir.File(datadir.DatabaseFile),
		"WAYPOST_ENCRYPTION_KEYS":       or("WAYPOST_ENCRYPTION_KEYS", state.EncryptionKeys),
		"WAYPOST_REDIS_URL":             "redis://" + temporal.Reachable(cfg.Dev.RedisAddr) + "/0",
		"WAYPOST_TEMPORAL_ADDRESS":      temporal.Reachable(cfg.Dev.TemporalAddr),
		"WAYPOST_TEMPORAL_NAMESPACE":    temporal.Namespace,
		"WAYPOST_TEMPORAL_UI_URL":       "http://" + temporal.Reachable(cfg.Dev.TemporalUIAddr),
		"WAYPOST_TEMPORAL_TASK_QUEUE":   cfg.Temporal.TaskQueue,
		"WAYPOST_WEBHOOK_ALLOW_CIDRS":   loopback,
		"WAYPOST_CONSOLE_SECOND_FACTOR": cfg.Console.SecondFactor,
	}
	if url := string(cfg.Database.URL); url != "" {
		set["WAYPOST_DATABASE_URL"] = url
		if path, ok := strings.CutPrefix(url, "sqlite:"); ok {
			if abs, err := filepath.Abs(path); err == nil {
				set["WAYPOST_DATABASE_URL"] = "sqlite:" + abs
			}
		}
	}
	if !s.has(Redis) {
		set["WAYPOST_REDIS_URL"] = or("WAYPOST_REDIS_URL", set["WAYPOST_REDIS_URL"])
	}
	if !s.has(Temporal) {
		for _, name := range []string{"WAYPOST_TEMPORAL_ADDRESS", "WAYPOST_TEMPORAL_NAMESPACE", "WAYPOST_TEMPORAL_UI_URL"} {
			set[name] = or(name, set[name])
		}
	}
	if cidrs := strings.TrimSpace(environ["WAYPOST_WEBHOOK_ALLOW_CIDRS"]); cidrs != "" {
		set["WAYPOST_WEBHOOK_ALLOW_CIDRS"] = cidrs + "," + loopback
	}
	for _, name := range []string{"WAYPOST_WEBHOOK_PORTS", "WAYPOST_WEBHOOK_PROXY", "WAYPOST_PHONE_REGION", "WAYPOST_TRUSTED_PROXIES", "WAYPOST_TYPESENSE_URL", "WAYPOST_TYPESENSE_API_KEY", "WAYPOST_SEARCH_ORIGINS"} {
		if value := or(name, ""); value != "" {
			set[name] = value
		}
	}
	return set
}

// typesense is where roles of their own look for a Typesense if no setting names one: the
// embedded index belongs to one process. Without a server there, searches are 503.
var typesense = map[string]string{"WAYPOST_TYPESENSE_URL": "http://127.0.0.1:8108", "WAYPOST_TYPESENSE_API_KEY": "none"}

// envFile is what roles of their own need of the settings. A gateway beside the
// one of this stack needs an address of its own.
func (s *Stack) envFile(set map[string]string) []datadir.Setting {
	if set["WAYPOST_TYPESENSE_URL"] == "" {
		set = maps.Clone(set)
		maps.Copy(set, typesense)
	}
	var out []datadir.Setting
	for _, name := range slices.Sorted(maps.Keys(set)) {
		if name == "WAYPOST_HTTP_ADDR" && s.has(Gateway) {
			continue
		}
		out = append(out, datadir.Setting{Name: name, Value: set[name]})
	}
	return out
}

// over lays settings over an environment, of which the last of a name counts.
func over(environ []string, set map[string]string) []string {
	environ = slices.Clone(environ)
	for name, value := range set {
		environ = append(environ, name+"="+value)
	}
	return environ
}

func toMap(environ []string) map[string]string {
	m := make(map[string]string, len(environ))
	for _, e := range environ {
		name, value, _ := strings.Cut(e, "=")
		m[name] = value
	}
	return m
}

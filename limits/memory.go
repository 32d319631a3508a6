package limits

import (
	"context"
	"fmt"
	"strings"

	"github.com/redis/go-redis/v9"
)

// Forgets says, a line for each, why a Redis may forget what it should remember, and what to do;
// nothing if it does not tell its settings, as the stand-in.
func Forgets(ctx context.Context, client redis.UniversalClient) (why []string, err error) {
	asked := map[string]string{}
	for _, section := range []string{"memory", "persistence"} {
		info, err := client.Info(ctx, section).Result()
		if err != nil && !redis.HasErrorPrefix(err, "section") && !strings.Contains(err.Error(), "not supported") {
			return nil, fmt.Errorf("ask Redis for its settings: %w", err)
		}
		asked[section] = info
	}
	policy, limit := infoField(asked["memory"], "maxmemory_policy"), infoField(asked["memory"], "maxmemory")
	if policy != "" && policy != "noeviction" {
		now := "once it has a maxmemory"
		if limit != "0" {
			now = "at its maxmemory of " + limit + " bytes"
		}
		why = append(why, fmt.Sprintf("maxmemory-policy is %s: Redis drops nonces, limits and sessions %s, and each time all requests that were signed before are refused; set maxmemory-policy noeviction", policy, now))
	}
	if infoField(asked["persistence"], "aof_enabled") == "0" && infoField(asked["persistence"], "rdb_last_save_time") != "" {
		saves, err := client.ConfigGet(ctx, "save").Result()
		if err == nil && saves["save"] == "" {
			why = append(why, "Redis keeps nothing over a restart: sessions of the console, limits and breakers begin anew, and requests that were signed before are refused; set appendonly yes")
		}
	}
	return why, nil
}

package main

import (
	"context"
	"log/slog"

	"github.com/spf13/cobra"

	"waypost/app"
	"waypost/config"
)

func (c *cli) gateway() *cobra.Command {
	return c.role(config.RoleGateway, app.Gateway, "Serve the HTTP API",
		`Serves the HTTP API until it is stopped. It needs WAYPOST_DATABASE_URL, WAYPOST_REDIS_URL,
WAYPOST_ENCRYPTION_KEYS and WAYPOST_TYPESENSE_URL with WAYPOST_TYPESENSE_API_KEY; journeys are
carried out by workers. Several may run at once.`,
		`  WAYPOST_HTTP_ADDR=0.0.0.0:8080 waypost gateway`)
}

func (c *cli) worker() *cobra.Command {
	return c.role(config.RoleWorker, app.Worker, "Carry out journeys and deliver their messages",
		`Carries out journeys and delivers their messages until it is stopped. It needs
WAYPOST_DATABASE_URL, WAYPOST_REDIS_URL, WAYPOST_ENCRYPTION_KEYS and WAYPOST_TYPESENSE_URL with
WAYPOST_TYPESENSE_API_KEY. Several may run at once.`,
		`  WAYPOST_TEMPORAL_ADDRESS=temporal:7233 waypost worker`)
}

func (c *cli) serve() *cobra.Command {
	return c.role(config.RoleServe, app.Serve, "Gateway and worker in one process",
		`Gateway and worker in one process, for small deployments. It needs WAYPOST_DATABASE_URL,
WAYPOST_REDIS_URL and WAYPOST_ENCRYPTION_KEYS. With WAYPOST_CONSOLE_ACCESS_KEY and
WAYPOST_CONSOLE_SECRET_KEY, the console is part of it.`,
		`  WAYPOST_DATABASE_URL=sqlite:/var/lib/waypost/waypost.db waypost serve`)
}

func (c *cli) codec() *cobra.Command {
	return c.role(config.RoleCodec, app.Codec, "Show Temporal's Web UI the encrypted payloads",
		`Serves the codec endpoint of Temporal's Web UI until it is stopped: POST /decode, for whoever
shows a token of an OpenID Connect issuer (Authorization: Bearer …, or an ID token in
Authorization-Extras, as the Web UI sends them). It needs WAYPOST_ENCRYPTION_KEYS,
WAYPOST_CODEC_OIDC_ISSUER and WAYPOST_CODEC_OIDC_AUDIENCE, and no database. It answers pages
of WAYPOST_TEMPORAL_UI_URL only; WAYPOST_CODEC_OIDC_REQUIRE lets in some people only.

The Web UI sends tokens to https URLs only: set WAYPOST_TLS_CERT and WAYPOST_TLS_KEY, or put
a proxy in front. Tell it of the endpoint by TEMPORAL_CODEC_ENDPOINT=https://codec.example.com
and TEMPORAL_CODEC_PASS_ACCESS_TOKEN=true.`,
		`  export WAYPOST_CODEC_OIDC_ISSUER=https://login.example.com/realms/ops
  export WAYPOST_CODEC_OIDC_AUDIENCE=temporal-ui WAYPOST_CODEC_OIDC_REQUIRE=groups=operators
  export WAYPOST_TEMPORAL_UI_URL=https://temporal.example.com
  export WAYPOST_TLS_CERT=/etc/waypost/tls.crt WAYPOST_TLS_KEY=/etc/waypost/tls.key
  WAYPOST_CODEC_ADDR=0.0.0.0:8081 waypost codec`)
}

func (c *cli) console() *cobra.Command {
	return c.role(config.RoleConsole, app.Console, "Serve the console, where people start and watch journeys",
		`Serves the console until it is stopped: pages on which people start and watch journeys. It
calls a gateway as an application of its own, with the key in WAYPOST_CONSOLE_ACCESS_KEY and
WAYPOST_CONSOLE_SECRET_KEY, and needs WAYPOST_DATABASE_URL, WAYPOST_REDIS_URL and
WAYPOST_ENCRYPTION_KEYS for those who sign in. Several may run at once.`,
		`  WAYPOST_CONSOLE_GATEWAY_URL=http://gateway:8080 WAYPOST_CONSOLE_URL=https://console.example.com waypost console`)
}

func (c *cli) role(
	role config.Role, start func(context.Context, config.Config, *slog.Logger, func(addr string)) error, short, long, example string,
) *cobra.Command {
	return &cobra.Command{
		Use: string(role), Short: short, Long: long, Example: example, Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := c.load(role)
			if err != nil {
				return err
			}
			log, scheme := cfg.Log.Logger(c.stderr), "http://"
			if cfg.TLS.Cert != "" {
				scheme = "https://"
			}
			err = start(cmd.Context(), cfg, log, func(addr string) {
				log.Info("ready", "role", string(role), "url", scheme+addr)
			})
			if err == nil {
				log.Info("stopped", "role", string(role))
			}
			return err
		},
	}
}

func (c *cli) migrate() *cobra.Command {
	return &cobra.Command{
		Use: "migrate", Short: "Bring the database schema and Temporal's search attributes up to date",
		Long: `Brings the SQL schema up to date and registers the search attributes with Temporal.
It may run again, and several may run at once. Run it before the roles of a new version.`,
		Example: `  WAYPOST_DATABASE_URL=postgres://waypost:…@db/waypost waypost migrate`,
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := c.load(config.RoleMigrate)
			if err != nil {
				return err
			}
			return app.Migrate(cmd.Context(), cfg, cfg.Log.Logger(c.stderr))
		},
	}
}

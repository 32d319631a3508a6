package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"go.temporal.io/api/enums/v1"
	"go.temporal.io/api/operatorservice/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/contrib/envconfig"
	"go.temporal.io/sdk/converter"
	sdklog "go.temporal.io/sdk/log"
	"go.temporal.io/sdk/temporal"

	"waypost"
	"waypost/config"
	"waypost/store"
	"waypost/workflows"
)

// dialTemporal makes a client that connects when it is first used: the gateway
// accepts enrollments while Temporal is away. TLS and API keys come from the
// variables that the SDK's envconfig knows (TEMPORAL_TLS…, TEMPORAL_API_KEY).
func dialTemporal(cfg config.Config, keys *waypost.Keyring, log *slog.Logger) (client.Client, error) {
	options, err := temporalOptions(cfg, log)
	if err != nil {
		return nil, err
	}
	options.DataConverter = converter.NewCodecDataConverter(converter.GetDefaultDataConverter(), workflows.NewCodec(keys))
	// Failure texts can hold what a database or a receiver said.
	options.FailureConverter = temporal.NewDefaultFailureConverter(temporal.DefaultFailureConverterOptions{
		DataConverter: options.DataConverter, EncodeCommonAttributes: true,
	})
	c, err := client.NewLazyClient(options)
	if err != nil {
		return nil, fmt.Errorf("make client of Temporal at %s: %w", cfg.Temporal.Address, err)
	}
	return c, nil
}

func temporalOptions(cfg config.Config, log *slog.Logger) (client.Options, error) {
	options, err := envconfig.LoadDefaultClientOptions()
	if err != nil {
		return options, fmt.Errorf("read Temporal's client settings: %w", err)
	}
	options.HostPort = cfg.Temporal.Address
	options.Namespace = cfg.Temporal.Namespace
	options.Logger = sdklog.NewStructuredLogger(log)
	return options, nil
}

func pingTemporal(c client.Client) func(context.Context) error {
	return func(ctx context.Context) error {
		_, err := c.CheckHealth(ctx, &client.CheckHealthRequest{})
		return err
	}
}

// startWorker starts the worker as soon as Temporal answers: roles may be
// started in any order.
func startWorker(ctx context.Context, start func() error, log *slog.Logger) error {
	for wait := 250 * time.Millisecond; ; wait = min(2*wait, 10*time.Second) {
		err := start()
		var unavailable *serviceerror.Unavailable
		if err == nil || !errors.As(err, &unavailable) && !errors.Is(err, context.DeadlineExceeded) {
			return err
		}
		log.Warn("Temporal does not answer; will retry", "in", wait, "error", err)
		select {
		case <-ctx.Done():
			return fmt.Errorf("wait for Temporal: %w", ctx.Err())
		case <-time.After(wait):
		}
	}
}

// Migrate brings the SQL schema up to date and registers the search attributes
// with Temporal. It may run again, and several may run at once.
func Migrate(ctx context.Context, cfg config.Config, log *slog.Logger) error {
	from, to, err := store.Migrate(ctx, string(cfg.Database.URL))
	if err != nil {
		return err
	}
	log.Info("database schema", "from", from, "to", to)
	options, err := temporalOptions(cfg, log)
	if err != nil {
		return err
	}
	c, err := client.DialContext(ctx, options)
	if err != nil {
		return fmt.Errorf("reach Temporal at %s to register the search attributes (WAYPOST_TEMPORAL_ADDRESS): %w", cfg.Temporal.Address, err)
	}
	defer c.Close()
	return registerSearchAttributes(ctx, c, cfg.Temporal.Namespace, log)
}

func registerSearchAttributes(ctx context.Context, c client.Client, namespace string, log *slog.Logger) error {
	known, err := c.OperatorService().ListSearchAttributes(ctx, &operatorservice.ListSearchAttributesRequest{Namespace: namespace})
	if err != nil {
		return fmt.Errorf("list search attributes: %w", err)
	}
	missing := map[string]enums.IndexedValueType{}
	for name, kind := range workflows.SearchAttributes() {
		registered, ok := known.CustomAttributes[name]
		switch {
		case !ok:
			missing[name] = kind
		case registered != kind:
			return fmt.Errorf("search attribute %s is registered as %s in namespace %s, but must be %s; remove it and run `waypost migrate` again", name, registered, namespace, kind)
		}
	}
	if len(missing) == 0 {
		return nil
	}
	_, err = c.OperatorService().AddSearchAttributes(ctx, &operatorservice.AddSearchAttributesRequest{Namespace: namespace, SearchAttributes: missing})
	var exists *serviceerror.AlreadyExists
	if err != nil && !errors.As(err, &exists) {
		return fmt.Errorf("register search attributes: %w", err)
	}
	log.Info("registered search attributes", "count", len(missing), "namespace", namespace)
	return nil
}

package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/cenkalti/backoff/v5"
	"go.temporal.io/api/enums/v1"
	"go.temporal.io/api/operatorservice/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/contrib/envconfig"
	"go.temporal.io/sdk/interceptor"
	sdklog "go.temporal.io/sdk/log"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/worker"

	"waypost"
	"waypost/config"
	"waypost/store"
	"waypost/workflows"
)

// dialTemporal makes a client that connects when it is first used: the gateway
// accepts enrollments while Temporal is away. TLS and API keys come from the
// variables that the SDK's envconfig knows (TEMPORAL_TLS…, TEMPORAL_API_KEY).
func dialTemporal(cfg config.Config, keys *waypost.Keyring, interceptors []interceptor.ClientInterceptor, log *slog.Logger) (client.Client, error) {
	options, err := temporalOptions(cfg, log)
	if err != nil {
		return nil, err
	}
	options.Interceptors = interceptors
	options.DataConverter = workflows.NewDataConverter(keys)
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
	// Payloads are compressed before they are encrypted. What remains is small.
	options.ConnectionOptions.GrpcCompression = &client.GrpcCompressionNone{}
	return options, nil
}

func pingTemporal(c client.Client) func(context.Context) error {
	return func(ctx context.Context) error {
		_, err := c.CheckHealth(ctx, &client.CheckHealthRequest{})
		return err
	}
}

// runningWorker is a worker that starts as soon as Temporal answers: roles may
// be started in any order.
type runningWorker struct {
	worker worker.Worker // valid once done is closed without an error
	done   chan struct{}
	err    error // why it did not start; valid once done is closed
}

func startWorker(ctx context.Context, build func() worker.Worker, log *slog.Logger) *runningWorker {
	r := &runningWorker{done: make(chan struct{})}
	go func() {
		defer close(r.done)
		_, r.err = backoff.Retry(ctx, func() (any, error) {
			r.worker = build() // one that failed to start does not try again
			err := r.worker.Start()
			if err != nil && !mayHeal(err) {
				err = backoff.Permanent(err)
			}
			return nil, err
		}, backoff.WithMaxElapsedTime(0),
			backoff.WithBackOff(&backoff.ExponentialBackOff{InitialInterval: 250 * time.Millisecond, Multiplier: 2, MaxInterval: 10 * time.Second}),
			backoff.WithNotify(func(err error, wait time.Duration) {
				log.Warn("the worker cannot start; will retry", "in", wait.String(), "error", err)
			}))
	}()
	return r
}

// mayHeal tells whether an error of Temporal may go away without a change of settings.
func mayHeal(err error) bool {
	var namespace *serviceerror.NamespaceNotFound
	var denied *serviceerror.PermissionDenied
	var invalid *serviceerror.InvalidArgument
	return !errors.As(err, &namespace) && !errors.As(err, &denied) && !errors.As(err, &invalid)
}

// started is closed once the worker has started or has failed for good. For a nil worker it
// is nil.
func (r *runningWorker) started() <-chan struct{} {
	if r == nil {
		return nil
	}
	return r.done
}

func (r *runningWorker) stop() {
	<-r.done
	if r.err == nil {
		r.worker.Stop()
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

// registerSearchAttributes adds those that the namespace lacks. One of another type is an error,
// because Temporal cannot change it.
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

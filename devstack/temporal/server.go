// Package temporal runs Temporal's server, its Web UI and a codec endpoint for
// the UI inside this process, for trying things out and for tests. Production
// uses a Temporal server of its own.
package temporal

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"path/filepath"
	"sync/atomic"
	"time"

	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/server/common/authorization"
	"go.temporal.io/server/common/cluster"
	"go.temporal.io/server/common/config"
	"go.temporal.io/server/common/dynamicconfig"
	"go.temporal.io/server/common/log"
	"go.temporal.io/server/common/membership/static"
	"go.temporal.io/server/common/primitives"
	sqliteschema "go.temporal.io/server/schema/sqlite"
	"go.temporal.io/server/temporal"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/protobuf/types/known/durationpb"
)

// DatabaseFile is the server's SQLite file in the data directory.
const DatabaseFile = "temporal.db"

// Namespace is the namespace that the server starts with.
const Namespace = "default"

// retention of closed workflows.
const retention = 7 * 24 * time.Hour

const clusterName = "active"

// Options says what server to start.
type Options struct {
	// Addr is the frontend's host:port; the port must not be 0. All other ports
	// are free ones of 127.0.0.1.
	Addr string
	// DataDir holds the SQLite file. It must exist.
	DataDir string
	// DatabaseURL, if not empty, is a postgres:// URL that replaces SQLite.
	DatabaseURL string
	// Log receives the server's errors; nothing below that is passed on.
	Log *slog.Logger
	// Fatal is called, by a goroutine of the server, if the server cannot go on. It should
	// end the process; if it returns, the goroutine panics.
	Fatal func(error)
}

// Server is a running Temporal server.
type Server struct {
	server   temporal.Server
	addr     string
	sqlite   string // the file, "" with PostgreSQL
	stopping atomic.Bool
}

// Start starts the server and returns when its frontend answers.
func Start(ctx context.Context, o Options) (*Server, error) {
	s := &Server{}
	logger := serverLog{log: o.Log, fatal: o.Fatal, stopping: &s.stopping}
	if o.Fatal == nil {
		logger.fatal = func(error) {}
	}
	stores, err := s.stores(ctx, o, logger)
	if err != nil {
		return nil, err
	}
	cfg, hosts, err := serverConfig(ctx, o.Addr, stores)
	if err != nil {
		return nil, err
	}
	s.addr = cfg.PublicClient.HostPort
	if err := createNamespace(stores.DataStores[stores.DefaultStore].SQL); err != nil {
		return nil, err
	}
	s.server, err = temporal.NewServer(
		temporal.WithConfig(cfg),
		temporal.ForServices(temporal.DefaultServices),
		temporal.WithStaticHosts(hosts),
		temporal.WithLogger(logger),
		temporal.WithAuthorizer(authorization.NewNoopAuthorizer()),
		temporal.WithClaimMapper(func(*config.Config) authorization.ClaimMapper {
			return authorization.NewNoopClaimMapper()
		}),
		temporal.WithDynamicConfigClient(dynamicConfig(o.DatabaseURL != "")),
	)
	if err != nil {
		return nil, fmt.Errorf("set up Temporal's server: %w", err)
	}
	if err := s.server.Start(); err != nil {
		return nil, errors.Join(fmt.Errorf("start Temporal's server: %w", err), s.abandon(ctx))
	}
	if err := s.ready(ctx); err != nil {
		return nil, errors.Join(err, s.abandon(ctx))
	}
	return s, nil
}

// abandonTimeout bounds the stop of a server that did not come up.
const abandonTimeout = 10 * time.Second

func (s *Server) abandon(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), abandonTimeout)
	defer cancel()
	return s.Stop(ctx)
}

// Addr is where the frontend listens, as clients of this machine reach it.
func (s *Server) Addr() string { return s.addr }

// Running counts the workflows of a type that have not ended.
func (s *Server) Running(ctx context.Context, workflowType string) (int64, error) {
	conn, err := grpc.NewClient(s.addr, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return 0, fmt.Errorf("connect to Temporal's frontend: %w", err)
	}
	defer conn.Close()
	answer, err := workflowservice.NewWorkflowServiceClient(conn).CountWorkflowExecutions(ctx, &workflowservice.CountWorkflowExecutionsRequest{
		Namespace: Namespace, Query: fmt.Sprintf("WorkflowType=%q AND ExecutionStatus=\"Running\"", workflowType),
	})
	if err != nil {
		return 0, fmt.Errorf("count workflows: %w", err)
	}
	return answer.GetCount(), nil
}

// Stop stops the server. It returns when the server has ended or ctx has.
func (s *Server) Stop(ctx context.Context) error {
	s.stopping.Store(true)
	stopped := make(chan error, 1)
	go func() { stopped <- s.server.Stop() }()
	select {
	case err := <-stopped:
		if err == nil && s.sqlite != "" {
			err = checkpoint(ctx, s.sqlite)
		}
		return err
	case <-ctx.Done():
		return fmt.Errorf("stop Temporal's server: %w", ctx.Err())
	}
}

// postgresShards is the number of shards on PostgreSQL, which is fixed with the first start
// on a database; on SQLite there is one.
const postgresShards = 4

func (s *Server) stores(ctx context.Context, o Options, logger log.Logger) (config.Persistence, error) {
	p := config.Persistence{DefaultStore: "main", VisibilityStore: "visibility", NumHistoryShards: 1}
	var main, visibility *config.SQL
	var err error
	if o.DatabaseURL == "" {
		s.sqlite = filepath.Join(o.DataDir, DatabaseFile)
		main, err = sqliteStore(ctx, s.sqlite)
		visibility = main
	} else {
		p.NumHistoryShards = postgresShards
		main, visibility, err = postgresStores(ctx, o.DatabaseURL, logger)
	}
	if err != nil {
		return p, err
	}
	p.DataStores = map[string]config.DataStore{"main": {SQL: main}, "visibility": {SQL: visibility}}
	return p, nil
}

// ready waits until the frontend answers its health check.
func (s *Server) ready(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	conn, err := grpc.NewClient(s.addr, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return fmt.Errorf("connect to Temporal's frontend: %w", err)
	}
	defer conn.Close()
	health := grpc_health_v1.NewHealthClient(conn)
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		answer, err := health.Check(ctx, &grpc_health_v1.HealthCheckRequest{Service: "temporal.api.workflowservice.v1.WorkflowService"})
		if err == nil && answer.GetStatus() == grpc_health_v1.HealthCheckResponse_SERVING {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("wait for Temporal's frontend: %w", errors.Join(ctx.Err(), err))
		case <-tick.C:
		}
	}
}

func createNamespace(store *config.SQL) error {
	ns, err := sqliteschema.NewNamespaceConfig(clusterName, Namespace, false, nil)
	if err != nil {
		return fmt.Errorf("describe the namespace %s: %w", Namespace, err)
	}
	ns.Detail.Config.Retention = durationpb.New(retention)
	ns.Detail.Config.CustomSearchAttributeAliases = columns(SearchAttributes())
	if err := sqliteschema.CreateNamespaces(store, ns); err != nil {
		return fmt.Errorf("create the namespace %s: %w", Namespace, err)
	}
	return nil
}

// serverConfig configures one process with all services: the frontend at addr, the others on free ports
// of 127.0.0.1.
func serverConfig(ctx context.Context, addr string, stores config.Persistence) (*config.Config, map[primitives.ServiceName]static.Hosts, error) {
	frontend, err := net.ResolveTCPAddr("tcp", addr)
	if err != nil {
		return nil, nil, fmt.Errorf("the address of Temporal's frontend: %w", err)
	}
	if frontend.IP == nil {
		frontend.IP = net.IPv4zero
	}
	public := Reachable(frontend.String())
	services := map[string]config.Service{
		string(primitives.FrontendService): {RPC: config.RPC{GRPCPort: frontend.Port, BindOnIP: frontend.IP.String()}},
	}
	hosts := map[primitives.ServiceName]static.Hosts{primitives.FrontendService: static.SingleLocalHost(public)}
	others := []primitives.ServiceName{primitives.HistoryService, primitives.MatchingService, primitives.WorkerService}
	ports, err := freePorts(ctx, len(others))
	if err != nil {
		return nil, nil, err
	}
	for i, name := range others {
		services[string(name)] = config.Service{RPC: config.RPC{GRPCPort: ports[i], BindOnIP: "127.0.0.1"}}
		hosts[name] = static.SingleLocalHost(fmt.Sprintf("127.0.0.1:%d", ports[i]))
	}

	cfg := &config.Config{
		Persistence:         stores,
		Services:            services,
		PublicClient:        config.PublicClient{HostPort: public},
		DCRedirectionPolicy: config.DCRedirectionPolicy{Policy: "noop"},
		ClusterMetadata: &cluster.Config{
			FailoverVersionIncrement: 10,
			MasterClusterName:        clusterName,
			CurrentClusterName:       clusterName,
			ClusterInformation: map[string]cluster.ClusterInformation{clusterName: {
				Enabled:                true,
				InitialFailoverVersion: 1,
				RPCAddress:             public,
				// The cluster's identity in the database; any fixed value will do.
				ClusterID: "3f4c2d0e-6f0b-4b8e-9d7a-57a1b3c9e101",
			}},
		},
	}
	cfg.Global.Membership = config.Membership{MaxJoinDuration: 30 * time.Second, BroadcastAddress: "127.0.0.1"}
	cfg.Archival.History.State = "disabled"
	cfg.Archival.Visibility.State = "disabled"
	cfg.NamespaceDefaults.Archival.History.State = "disabled"
	cfg.NamespaceDefaults.Archival.Visibility.State = "disabled"
	return cfg, hosts, nil
}

// freePorts finds n different free ports of 127.0.0.1. The server has to be told
// its ports, so they are free again when this returns.
func freePorts(ctx context.Context, n int) ([]int, error) {
	ports := make([]int, n)
	for i := range ports {
		l, err := ListenFree(ctx, "127.0.0.1")
		if err != nil {
			return nil, fmt.Errorf("find a free port: %w", err)
		}
		defer l.Close()
		ports[i] = l.Addr().(*net.TCPAddr).Port
	}
	return ports, nil
}

// HistoryEvents is the number of events after which Temporal suggests that a
// workflow continues as new. Tests set it before Start.
var HistoryEvents = 4096

// dynamicConfig suits one user on one machine: one task-queue partition, as
// there is one matching service; limits that a benchmark does not meet; fairness
// keys honoured.
func dynamicConfig(postgres bool) dynamicconfig.StaticClient {
	const unlimited = 1_000_000
	settings := map[dynamicconfig.Key]any{
		dynamicconfig.MatchingNumTaskqueueReadPartitions.Key():  1,
		dynamicconfig.MatchingNumTaskqueueWritePartitions.Key(): 1,
		dynamicconfig.MatchingEnableFairness.Key():              true,
		dynamicconfig.HistoryCountSuggestContinueAsNew.Key():    HistoryEvents,
		// 512 of each by default, for a cluster: on one machine they only queue up for
		// the database, before calls that wait for an answer.
		dynamicconfig.VisibilityProcessorSchedulerWorkerCount.Key(): 1,
		dynamicconfig.TransferProcessorSchedulerWorkerCount.Key():   4,
		dynamicconfig.TimerProcessorSchedulerWorkerCount.Key():      4,
		// A second by default, which the server reads ahead: a timer that is shorter begins
		// when what has been read is over, up to a second late.
		dynamicconfig.TimerProcessorMaxTimeShift.Key(): 100 * time.Millisecond,
		// 512, 128 and 8 MB for other clusters, which there are none of: memory that every
		// garbage collection would look at.
		dynamicconfig.ReplicationProcessorSchedulerWorkerCount.Key():            1,
		dynamicconfig.ReplicationLowPriorityProcessorSchedulerWorkerCount.Key(): 1,
		dynamicconfig.XDCCacheMaxSizeBytes.Key():                                0, // the least
		// 128,000 by default: what it knows of the last workflows stays in memory for an
		// hour, 35 kB for each.
		dynamicconfig.HistoryCacheHostLevelMaxSize.Key(): 1_000,
		// Every event would be looked through for payloads that are stored elsewhere, of
		// which there are none, and every request counted for the health of a cluster.
		dynamicconfig.ExternalPayloadsEnabled.Key():                             false,
		dynamicconfig.HistoryHealthSignalMetricsEnabled.Key():                   false,
		dynamicconfig.PersistenceHealthSignalMetricsEnabled.Key():               false,
		dynamicconfig.FrontendRPS.Key():                                         unlimited,
		dynamicconfig.FrontendMaxNamespaceRPSPerInstance.Key():                  unlimited,
		dynamicconfig.FrontendMaxNamespaceVisibilityRPSPerInstance.Key():        1_000,
		dynamicconfig.MatchingRPS.Key():                                         unlimited,
		dynamicconfig.HistoryRPS.Key():                                          unlimited,
		dynamicconfig.FrontendPersistenceMaxQPS.Key():                           unlimited,
		dynamicconfig.HistoryPersistenceMaxQPS.Key():                            unlimited,
		dynamicconfig.MatchingPersistenceMaxQPS.Key():                           unlimited,
		dynamicconfig.VisibilityPersistenceMaxReadQPS.Key():                     unlimited,
		dynamicconfig.VisibilityPersistenceMaxWriteQPS.Key():                    unlimited,
		dynamicconfig.EnableEagerWorkflowStart.Key():                            true,
		dynamicconfig.FrontendMaxConcurrentLongRunningRequestsPerInstance.Key(): unlimited,
	}
	if postgres {
		// While it syncs one write it works on others.
		settings[dynamicconfig.ShardIOConcurrency.Key()] = 8
		// As much as SQLite's one shard has: what is in it takes six times that in memory.
		settings[dynamicconfig.EventsCacheMaxSizeBytes.Key()] = 512 << 10 / postgresShards
	}
	// The server keeps what it makes of a value by the place of its constraints: one that
	// has none would be converted whenever it is read.
	client := make(dynamicconfig.StaticClient, len(settings))
	for key, value := range settings {
		client[key] = []dynamicconfig.ConstrainedValue{{Value: value}}
	}
	return client
}

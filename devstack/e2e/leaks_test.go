package e2e

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"database/sql"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	commonpb "go.temporal.io/api/common/v1"
	historypb "go.temporal.io/api/history/v1"
	"go.temporal.io/api/proxy"
	sdkpb "go.temporal.io/api/sdk/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"google.golang.org/protobuf/proto"

	"waypost"
	"waypost/config"
	"waypost/devstack/datadir"
	"waypost/devstack/harness"
	"waypost/workflows"
)

// planted is a value that a run hands to Waypost. It is found again in the places
// that in lists, in all of them, and nowhere else: not in a log, a metric, a span, Redis or
// Temporal, whose payloads are looked at as the codec opens them.
type planted struct {
	what     string
	writings []string
	in       []string // "sql TABLE.COLUMN" or "file NAME"
	// erased says that it was in the database once, whose files may hold it for a while.
	erased bool
}

// leadColumn is where a field of a lead is: there it is listed, filtered and corrected.
func leadColumn(name string) []string { return []string{"sql leads." + name} }

// foldedColumn is where a field is that lists compare without its case.
func foldedColumn(name string) []string { return append(leadColumn(name), "sql leads."+name+"_folded") }

// Texts that are in nothing else.
const (
	plantedName       = "Ophelia Featherstonehaugh"
	plantedPhone      = "13912345678"
	plantedEmail      = "ophelia.vane@leak.example"
	plantedWechat     = "wx-gallowglass-7"
	plantedCustom     = "amaranth-7731"
	plantedParam      = "hellebore-1340"
	plantedProperty   = "belladonna-9157"
	plantedSearch     = "searched.mistletoe@leak.example"
	plantedUnstored   = "dryrun.tansy@leak.example"
	plantedInvalid    = "refused-mandrake"
	plantedDeleted    = "deleted.yarrow@leak.example"
	plantedErased     = "erased-feverfew-3382"
	plantedFilter     = "filtered-vervain-2216"
	plantedConsent    = "consent-sorrel-7728"
	plantedSuppressed = "suppressed.rue@leak.example"
	plantedReleased   = "released-borage-4096"
	plantedImported   = "imported.wolfsbane@leak.example"
	plantedWords      = "the receiver's own words about betony-5521"
	plantedKey        = "idempotent-comfrey-8812"
	plantedPassword   = "oleander-password-3319"
	plantedUserInfo   = "larkspur-userinfo-7204"
	plantedURLToken   = "foxglove-url-token-6650"
	plantedBadHeader  = "header-henbane-4471"
	plantedDBPassword = "database-aconite-2063"
	plantedEngineKey  = "engine-datura-9914"
	plantedCollector  = "collector-hemlock-5028"
)

// plant says where everything may be that the run is about to hand over.
func (s *site) plant(given secrets) {
	s.planted = []planted{
		{what: "name", writings: []string{plantedName, "Featherstonehaugh"}, in: foldedColumn("name")},
		{what: "phone", writings: []string{plantedPhone, "139 1234 5678", "139-1234-5678"}, in: []string{"sql leads.mobile_phone", "sql lead_phones.phone"}},
		{what: "e-mail", writings: []string{plantedEmail}, in: append(foldedColumn("email"), "sql launches.filter")},
		{what: "birthday", writings: []string{"1987-03-29"}, in: leadColumn("birthday")},
		{what: "address", writings: []string{"17 Gallowglass Lane"}, in: leadColumn("address")},
		{what: "remark", writings: []string{"prefers-wormwood-tea"}, in: leadColumn("remark")},
		{what: "wechat", writings: []string{plantedWechat}, in: leadColumn("wechat")},
		{what: "qq", writings: []string{"998877665544"}, in: leadColumn("qq")},
		{what: "telephone", writings: []string{"010-8765-4321"}, in: leadColumn("telephone")},
		{what: "open id", writings: []string{"nightshade-5561"}, in: leadColumn("open_id")},
		{what: "external id", writings: []string{"mandragora-4218"}, in: leadColumn("external_id")},
		{what: "custom field", writings: []string{plantedCustom}, in: leadColumn("custom_fields")},
		// The audit log tells which members of a lead were changed.
		{what: "consent", writings: []string{plantedConsent}, in: append(leadColumn("consents"), "sql audit.became")},
		{what: "suppressed e-mail", writings: []string{plantedSuppressed}, in: append(foldedColumn("email"), "sql suppressions.email", "sql suppressions.email_folded")},
		{what: "suppressed phone", writings: []string{"13998761234", "139 9876 1234"}, in: []string{"sql suppressions.mobile_phone"}},
		{what: "suppressed external id", writings: []string{plantedReleased}, erased: true},
		{what: "enrollment's param", writings: []string{plantedParam}, in: []string{"sql enrollments.params"}},
		{what: "event's property", writings: []string{plantedProperty}, in: []string{"sql events.properties"}},
		{what: "imported e-mail", writings: []string{plantedImported}, in: foldedColumn("email")},
		// What is only asked for is stored nowhere, nor is what was refused or deleted.
		{what: "search", writings: []string{plantedSearch}},
		{what: "dry run", writings: []string{plantedUnstored}},
		{what: "invalid value", writings: []string{plantedInvalid}},
		{what: "deleted lead", writings: []string{plantedDeleted}, erased: true},
		{what: "deleted lead's param", writings: []string{plantedErased}, erased: true},
		{what: "deleted lead's external id", writings: []string{plantedFilter}, erased: true},
		{what: "broken header", writings: []string{plantedBadHeader}},
		{what: "Idempotency-Key", writings: []string{plantedKey}},
		// A receiver may say anything, and repeats what it was sent.
		{what: "receiver's words", writings: []string{plantedWords}},
		{what: "password", writings: []string{plantedPassword, base64.StdEncoding.EncodeToString([]byte("crm:" + plantedPassword))}},
		{what: "user info of a URL", writings: []string{plantedUserInfo}},
		{what: "token in a URL", writings: []string{plantedURLToken}, in: []string{"sql webhooks.url"}},
		{what: "signing secret", writings: given.signing[:1]},
		{what: "signing secret after its rotation", writings: given.signing[1:]},
		{what: "client certificate's key", writings: given.keyLines},
		{what: "application's secret", writings: []string{given.secretKey}},
		{what: "demo application's secret", writings: []string{s.base.Profile.SecretKey}, in: []string{"file " + datadir.ProfileFile, "file " + datadir.StateFile}},
		{what: "encryption key", writings: []string{strings.TrimPrefix(scheduleKeys, "test:")}, in: []string{"file " + datadir.EnvFile}},
	}
	s.planted = append(append(s.planted, planted{what: "collector's key", writings: []string{plantedCollector}}), s.services...)
}

// secrets are made by the run.
type secrets struct {
	signing   []string // the first one, and the one that replaced it
	keyLines  []string // of the client certificate's key
	secretKey string
}

// site is a running Waypost that is looked through.
type site struct {
	base    *harness.Process // Temporal and Redis, and everything else where there are no roles
	api     *harness.Process // whom clients call
	outputs map[string]*harness.Process
	admin   []string // addresses
	env     []string // of a role
	planted []planted
	spans   *collector
	// services are the passwords of what the site uses.
	services []planted
	// postgres is the database's server where it is one, and postgresLog what it has
	// printed until a fault that is not Waypost's.
	postgres    *harness.Server
	postgresLog string
	journey     string // its id, and that of a message
	message     string
}

// Everything that a run leaves behind is searched for what was planted in it:
// personal data in every writing, secrets, and what was only asked for.
func TestLeaks(t *testing.T) {
	t.Run("waypost-dev on SQLite, logs as text", func(t *testing.T) {
		t.Parallel()
		s := &site{admin: []string{freeAddr(t)}, spans: startCollector(t)}
		s.base = harness.StartProcess(t, filepath.Join(t.TempDir(), "data"), []string{"--no-demo"}, append(s.traced(),
			"WAYPOST_ENCRYPTION_KEYS="+scheduleKeys, "WAYPOST_LOG_LEVEL=debug", "WAYPOST_LOG_FORMAT=text", "WAYPOST_ADMIN_ADDR="+s.admin[0])...)
		s.api, s.env = s.base, s.base.RoleSettings(t)
		s.outputs = map[string]*harness.Process{"waypost-dev": s.base}
		s.test(t)
	})
	t.Run("gateway and worker on PostgreSQL, logs as JSON", func(t *testing.T) {
		t.Parallel()
		postgres := harness.StartPostgres(t) // its own, for its log
		database, err := url.Parse(postgres.URL)
		if err != nil {
			t.Fatal(err)
		}
		inSettings := []string{"file " + datadir.EnvFile}
		services := []planted{{what: "search engine's key", writings: []string{plantedEngineKey}, in: inSettings}}
		if _, has := database.User.Password(); !has { // the server trusts this machine: any will do
			database.User = url.UserPassword(database.User.Username(), plantedDBPassword)
			services = append(services, planted{what: "database's password", writings: []string{plantedDBPassword}, in: inSettings})
		}
		// A search engine that does nothing but repeat what it was asked.
		engine := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.WriteHeader(http.StatusBadRequest)
			_, _ = io.Copy(w, io.MultiReader(strings.NewReader(r.RequestURI), r.Body))
		}))
		t.Cleanup(engine.Close)
		settings := []string{
			"WAYPOST_ENCRYPTION_KEYS=" + scheduleKeys, "WAYPOST_LOG_LEVEL=debug", "WAYPOST_LOG_FORMAT=json", "WAYPOST_DATABASE_URL=" + database.String(),
			"WAYPOST_TYPESENSE_URL=" + engine.URL, "WAYPOST_TYPESENSE_API_KEY=" + plantedEngineKey,
		}
		f := harness.StartFleet(t, 0, 0, settings...)
		s := &site{base: f.Base, env: f.Env, spans: startCollector(t), services: services, postgres: postgres, outputs: map[string]*harness.Process{"waypost-dev": f.Base}}
		for _, role := range []config.Role{config.RoleWorker, config.RoleGateway} {
			s.admin = append(s.admin, freeAddr(t))
			f.Env = slices.Concat(s.env, settings, s.traced(), []string{"WAYPOST_ADMIN_ADDR=" + s.admin[len(s.admin)-1]})
			s.api = f.Start(t, role)
			s.outputs[string(role)] = s.api
		}
		s.test(t)
	})
}

// traced are the settings with which a process exports its traces.
func (s *site) traced() []string {
	return append(s.spans.settings(), "OTEL_EXPORTER_OTLP_HEADERS=authorization=Bearer%20"+plantedCollector)
}

func (s *site) test(t *testing.T) {
	t.Helper()
	s.run(t)
	found := s.search(s.collect(t))
	for _, p := range s.planted {
		want := slices.Sorted(slices.Values(p.in))
		if got := found[p.what]; !slices.Equal(got, want) {
			t.Errorf("the %s is in %q, want %q", p.what, got, want)
		}
	}
	t.Run("finds what is planted on purpose", s.findsLeaks)
}

// findsLeaks plants values where they do not belong: the search must find them.
func (s *site) findsLeaks(t *testing.T) {
	t.Helper()
	// Requests are logged with the id that their client gave them.
	s.send(t, http.MethodGet, "/v1/leads?limit=1", http.Header{"X-Request-Id": {plantedUnstored}}, "", http.StatusOK)
	s.send(t, http.MethodPost, "/v1/webhooks", nil, fmt.Sprintf(`{"name":%q,"url":"https://example.com"}`, plantedInvalid), http.StatusCreated)
	options := client.StartWorkflowOptions{ID: "leak", TaskQueue: nobody, StaticSummary: "about " + plantedDeleted, Memo: map[string]any{"of": plantedKey}}
	if _, err := dialTemporal(t, s.base).ExecuteWorkflow(t.Context(), options, "Leak", plantedSearch); err != nil {
		t.Fatal(err)
	}
	found := s.search(s.collect(t))
	for what, place := range map[string]string{
		"dry run": "log of ", "invalid value": "sql webhooks.name", "search": "payloads", "deleted lead": "payloads", "Idempotency-Key": "payloads",
	} {
		if !slices.ContainsFunc(found[what], func(p string) bool { return strings.HasPrefix(p, place) }) {
			t.Errorf("the %s was planted in %s, and is found in %q", what, place, found[what])
		}
	}
}

// run does everything that a client can do with what is planted.
func (s *site) run(t *testing.T) {
	t.Helper()
	echo := httptest.NewServer(http.HandlerFunc(repeat))
	t.Cleanup(echo.Close)
	secure := httptest.NewUnstartedServer(http.HandlerFunc(repeat))
	secure.TLS = &tls.Config{ClientAuth: tls.RequireAnyClientCert}
	secure.StartTLS()
	t.Cleanup(secure.Close)
	pair := secure.TLS.Certificates[0]
	der, err := x509.MarshalPKCS8PrivateKey(pair.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	certificate := string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: pair.Certificate[0]}))
	clientKey := string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}))
	given := secrets{signing: []string{newSigningSecret(), newSigningSecret()}, keyLines: strings.Split(clientKey, "\n")[1:3]}
	app, err := openStore(t, s.env).CreateApplication(t.Context(), "", waypost.Application{
		Org: demoScope.Org, Name: "leaks", Grants: []waypost.Grant{"*"}, RatePerSecond: 1000, RateBurst: 1000,
	})
	if err != nil {
		t.Fatal(err)
	}
	given.secretKey = app.SecretKey
	s.plant(given)

	// Channels. One has everything that is secret, and another secret after that.
	hook := func(path string, more map[string]any) string {
		body := map[string]any{
			"name": strings.Trim(path, "/"), "url": echo.URL + path, "timeoutMs": 10_000, "basicAuth": map[string]any{"username": "crm", "password": plantedPassword},
			"params": map[string]any{"to": "{{ lead.name }} {{ lead.email }} {{ lead.mobilePhone | join: ',' }} {{ lead.customFields.plan }}"},
			"retry":  map[string]any{"schedule": []string{"1s"}, "maxAttempts": 2},
		}
		maps.Copy(body, more)
		var made struct{ ID string }
		s.do(t, http.MethodPost, "/v1/webhooks", body, &made)
		return made.ID
	}
	hooks := map[string]string{"CLOSED": hook("/closed", map[string]any{"url": "http://127.0.0.1:1/in?token=" + plantedURLToken})}
	for _, path := range []string{"/taken", "/refused", "/down", "/garbage", "/loud", "/cut", "/moved"} {
		hooks[strings.ToUpper(path[1:])] = hook(path, nil)
	}
	hooks["WANTED"] = hook("/wanted", map[string]any{"channel": "post", "requiresConsent": true})
	hooks["TLS"] = hook("/tls", map[string]any{"url": secure.URL + "/tls", "signingSecret": given.signing[0], "tls": map[string]any{
		"caCertificate": certificate, "clientCertificate": certificate, "clientKey": clientKey,
	}})
	s.do(t, http.MethodPatch, "/v1/webhooks/"+hooks["TLS"], map[string]any{"signingSecret": given.signing[1]}, nil)
	s.send(t, http.MethodPost, "/v1/webhooks", nil, `{"name":"x","url":"https://crm:`+plantedUserInfo+`@example.com/"}`, http.StatusBadRequest)
	for _, id := range hooks {
		s.do(t, http.MethodPost, "/v1/webhooks/"+id+"/test", nil, nil)
	}

	// Leads, and requests that are refused because of what they say.
	lead := func(fields map[string]any) (id int64) {
		var made struct{ LeadsID int64 }
		s.do(t, http.MethodPost, "/v1/leads", map[string]any{"businessParam": fields}, &made)
		return made.LeadsID
	}
	fields := map[string]any{
		"name": plantedName, "mobilePhone": []string{"+86 139 1234 5678"}, "email": plantedEmail, "birthday": "1987-03-29", "address": "17 Gallowglass Lane",
		"remark": "prefers-wormwood-tea", "wechat": plantedWechat, "qq": "998877665544", "telephone": "010-8765-4321", "openId": "nightshade-5561",
		"externalId": "mandragora-4218", "customFields": map[string]any{"plan": plantedCustom, "renewal": "2020-01-01"},
		"consents": map[string]any{"post": true, plantedConsent: true},
	}
	var ids []int64
	businessParam, err := json.Marshal(map[string]any{"businessParam": fields})
	if err != nil {
		t.Fatal(err)
	}
	for range 2 { // the second time it is answered from what is kept
		b := s.send(t, http.MethodPost, "/v1/leads", http.Header{"Idempotency-Key": {plantedKey}}, string(businessParam), http.StatusCreated)
		var made struct{ LeadsID int64 }
		unmarshal(t, b, &made)
		ids = append(ids, made.LeadsID)
	}
	ophelia, gone := ids[0], lead(map[string]any{"name": "Gone", "email": plantedDeleted, "externalId": plantedFilter})
	others := []int64{lead(map[string]any{"name": "A"}), lead(map[string]any{"name": "B"}), lead(map[string]any{"name": "C"})}
	s.send(t, http.MethodPost, "/v1/leads", nil, string(businessParam), http.StatusConflict)
	for _, method := range []string{http.MethodPatch, http.MethodPut} {
		s.send(t, method, fmt.Sprint("/v1/leads/", others[0]), nil, `{"businessParam":{"name":"A","externalId":"mandragora-4218"}}`, http.StatusConflict)
	}
	for _, refused := range []string{
		`{"email":"` + plantedInvalid + `","mobilePhone":["` + plantedInvalid + `"],"birthday":"` + plantedInvalid + `","name":"x"}`,
		`{"` + plantedInvalid + `":1,"name":"` + plantedInvalid + `"}`, `{"name":"x","gender":"` + plantedInvalid + `"}`,
	} {
		s.send(t, http.MethodPost, "/v1/leads", nil, `{"businessParam":`+refused+`}`, http.StatusBadRequest)
		s.send(t, http.MethodPatch, fmt.Sprint("/v1/leads/", ophelia), nil, `{"businessParam":`+refused+`}`, http.StatusBadRequest)
	}

	// Whom messages must not go to.
	suppressed := lead(map[string]any{"name": "D", "email": plantedSuppressed, "consents": map[string]any{"post": true}})
	suppress := func(kind, address string, status int) (id string) {
		var made struct{ ID string }
		unmarshal(t, s.send(t, http.MethodPost, "/v1/suppressions", nil, fmt.Sprintf(`{"channel":"post",%q:%q}`, kind, address), status), &made)
		return made.ID
	}
	suppress("email", plantedSuppressed, http.StatusCreated)
	suppress("email", plantedSuppressed, http.StatusOK)
	suppress("mobilePhone", "139 9876 1234", http.StatusCreated)
	s.do(t, http.MethodDelete, "/v1/suppressions/"+suppress("externalId", plantedReleased, http.StatusCreated), nil, nil)
	suppress("email", plantedInvalid, http.StatusBadRequest)
	s.do(t, http.MethodGet, fmt.Sprint("/v1/suppressions?leadsId=", suppressed), nil, nil)
	s.do(t, http.MethodPatch, fmt.Sprint("/v1/leads/", others[0]), map[string]any{"businessParam": map[string]any{"consents": map[string]any{plantedConsent: false}}}, nil)
	s.send(t, http.MethodPatch, fmt.Sprint("/v1/leads/", others[0]), nil, `{"businessParam":{"consents":{"post":"`+plantedInvalid+`"}}}`, http.StatusBadRequest)

	filters := url.Values{"name": {plantedName}, "mobilePhone": {plantedPhone}, "email": {plantedEmail}, "externalId": {"mandragora-4218"}}.Encode()
	for target, status := range map[string]int{
		"/v1/leads?" + filters:                           http.StatusOK,
		"/v1/leads/export?format=csv&" + filters:         http.StatusOK,
		"/v1/leads?createdFrom=" + plantedInvalid:        http.StatusBadRequest,
		"/v1/leads?" + plantedInvalid + "=1":             http.StatusBadRequest,
		"/v1/leads?cursor=" + plantedInvalid:             http.StatusBadRequest,
		"/v1/leads/" + plantedInvalid:                    http.StatusNotFound,
		"/" + plantedInvalid + "/" + plantedEmail:        http.StatusNotFound,
		"/v1/deliveries/" + plantedInvalid:               http.StatusNotFound,
		"/v1/webhooks/whk_" + plantedInvalid + "/health": http.StatusNotFound,
		"/v1/enrollments/enr_" + plantedEmail:            http.StatusNotFound,
		"/v1/deliveries?status=" + plantedInvalid:        http.StatusBadRequest,
		"/v1/journeys/" + plantedInvalid + "/versions":   http.StatusNotFound,
	} {
		s.send(t, http.MethodGet, target, nil, "", status)
	}
	s.sendRaw(t)
	s.send(t, http.MethodGet, "/v1/leads", http.Header{"X-Cloud-Stage": {plantedInvalid}}, "", http.StatusBadRequest)

	// Imports with rows that fail, in both ways.
	rows := "name,mobilePhone,email,birthday\n" +
		"Good," + "13712345671," + plantedImported + ",\n" +
		"Taken," + plantedPhone + ",,\n" +
		"Bad," + plantedInvalid + "," + plantedInvalid + "," + plantedInvalid + "\n" +
		plantedInvalid + ",too,many,cells,here\n"
	for _, dryRun := range []string{"true", "false"} {
		var im struct{ ID string }
		unmarshal(t, s.send(t, http.MethodPost, "/v1/leads/imports?mode=create&dryRun="+dryRun, http.Header{"Content-Type": {"text/csv"}}, rows, http.StatusAccepted), &im)
		if got := awaitImport(t, s.api, im.ID, 4); got.Failed != 3 {
			t.Errorf("the import is %+v", got)
		}
		s.send(t, http.MethodGet, "/v1/leads/imports/"+im.ID+"/errors", nil, "", http.StatusOK)
	}

	// A journey through everything, with conditions that fail on what they read.
	s.searchArticles(t)
	way := s.publish(t, hooks, `{"name":"Way","start":"taken","exitOn":[{"event":"left"}],"nodes":[
		{"id":"taken","type":"touchpoint","webhook":"TAKEN","params":{"note":"{{ enrollment.params.note }}"},"next":"check"},
		{"id":"check","type":"branch","cases":[
			{"when":"int(lead.name) > 1","next":"end"},{"when":"lead.customFields[lead.email] == 1","next":"end"},
			{"when":"timestamp(lead.wechat) > timestamp('2020-01-01T00:00:00Z')","next":"end"},{"when":"lead.name.matches(lead.email + '(')","next":"end"},
			{"when":"enrollment.params[touchpoints.taken.message] == 1","next":"end"},
			{"when":"lead.email.contains('@') && touchpoints.taken.message.contains('@')","next":"refused"}],"otherwise":"end"},
		{"id":"refused","type":"touchpoint","webhook":"REFUSED","onFailure":"down"},
		{"id":"down","type":"touchpoint","webhook":"DOWN","onFailure":"garbage"},
		{"id":"garbage","type":"touchpoint","webhook":"GARBAGE","next":"loud"},
		{"id":"loud","type":"touchpoint","webhook":"LOUD","next":"cut"},
		{"id":"cut","type":"touchpoint","webhook":"CUT","next":"closed"},
		{"id":"closed","type":"touchpoint","webhook":"CLOSED","next":"tls"},
		{"id":"tls","type":"touchpoint","webhook":"TLS","next":"broken"},
		{"id":"broken","type":"touchpoint","webhook":"TAKEN","params":{"x":"{{ lead.email | divided_by: lead.customFields.none }}"},"next":"wait"},
		{"id":"wait","type":"waitForEvent","event":"bought","since":"enrollment","when":"int(event.note) > 1 || event.note.endsWith('!')","timeout":"1m","next":"date"},
		{"id":"date","type":"waitUntil","lead":"customFields.renewal","next":"arms","onMissed":"arms"},
		{"id":"arms","type":"split","arms":[{"weight":1,"next":"end"},{"weight":1,"next":"end"}]},
		{"id":"end","type":"exit"}]}`)
	enroll := func(journeyID string, lead int64, note string) string {
		var made struct{ EnrollmentID string }
		s.do(t, http.MethodPost, "/v1/journeys/"+journeyID+"/enrollments", map[string]any{"leadsId": lead, "params": map[string]any{"note": note}}, &made)
		return made.EnrollmentID
	}
	through := enroll(way, ophelia, plantedParam)
	enroll(way, gone, plantedErased)
	post := s.publish(t, hooks, `{"name":"Post","start":"wanted","nodes":[{"id":"wanted","type":"touchpoint","webhook":"WANTED"}]}`)
	for lead, want := range map[int64]string{ophelia: waypost.WhatSent, others[0]: waypost.SkipConsent, suppressed: waypost.SkipSuppressed} {
		e := s.api.AwaitEnd(t, enroll(post, lead, ""), time.Minute)
		if !slices.ContainsFunc(e.Timeline, func(entry waypost.TimelineEntry) bool { return want == cmp.Or(entry.Reason, entry.What) }) {
			t.Errorf("the enrollment is not %s: %+v", want, e)
		}
	}
	var failed []string
	for i, note := range []string{plantedProperty, plantedProperty + "!"} {
		s.do(t, http.MethodPost, "/v1/events", map[string]any{
			"eventId": fmt.Sprint("bought-", i), "name": "bought", "leadsId": ophelia, "properties": map[string]any{"note": note},
		}, nil)
	}
	ndjson := http.Header{"Content-Type": {"application/x-ndjson"}}
	event := fmt.Sprintf(`{"eventId":"seen","name":"seen","leadsId":%d,"properties":{"note":%q}}`, ophelia, plantedProperty)
	s.send(t, http.MethodPost, "/v1/events/import", ndjson, event+"\n{"+event+"\n"+strings.Replace(event, `"leadsId":`, `"leadsId":9999`, 1), http.StatusMultiStatus)
	s.do(t, http.MethodGet, fmt.Sprintf("/v1/events?leadsId=%d&name=seen", ophelia), nil, nil)
	s.do(t, http.MethodGet, "/v1/events/names", nil, nil)
	s.do(t, http.MethodPost, "/v1/journeys/"+way+"/dryrun", map[string]any{"lead": map[string]any{"name": "D", "email": plantedUnstored}}, nil)
	s.do(t, http.MethodPost, "/v1/journeys/"+way+"/dryrun", map[string]any{"leadsId": ophelia}, nil)
	filter := map[string]any{"audience": map[string]any{"filter": map[string]any{"email": plantedEmail}}}
	s.do(t, http.MethodPost, "/v1/journeys/"+way+"/forecast", map[string]any{"audience": filter["audience"], "days": 3}, nil)

	// Another one is launched, held, migrated, redelivered and canceled.
	stay := `{"name":"Stay","start":"taken","nodes":[{"id":"taken","type":"touchpoint","webhook":"REFUSED","next":"hold"},
		{"id":"hold","type":"waitForEvent","event":"never","timeout":"1h"}]}`
	held := s.publish(t, hooks, stay)
	var l, once struct{ LaunchID, Status string }
	s.do(t, http.MethodPost, "/v1/journeys/"+held+"/launches", filter, &l)
	s.do(t, http.MethodPost, "/v1/journeys/"+held+"/launches", map[string]any{"audience": map[string]any{"leadsIds": append(others, gone)}, "controlGroup": 0.1}, &once)
	s.do(t, http.MethodPost, "/v1/journeys/"+held+"/launches", map[string]any{"audience": map[string]any{"filter": map[string]any{"externalId": plantedFilter}}}, &once)
	recurring := maps.Clone(filter)
	recurring["schedule"] = map[string]any{"cron": "0 0 1 1 *"}
	s.do(t, http.MethodPost, "/v1/journeys/"+way+"/launches", recurring, &once)
	if err := scheduleOf(t, dialTemporal(t, s.base), once.LaunchID).Trigger(t.Context(), client.ScheduleTriggerOptions{}); err != nil {
		t.Fatal(err)
	}
	launched := 2 // ophelia and gone
	for _, id := range others {
		if !waypost.HeldOut(held, id, 0.1) {
			launched++
		}
	}
	harness.Eventually(t, time.Minute, func() (bool, string) {
		failed = nil
		for _, r := range s.api.Records(t, held) {
			if r.Status == waypost.DeliveryFailed {
				failed = append(failed, r.MessageID)
			}
		}
		return len(failed) == launched, fmt.Sprintf("%d of %d messages of the launches have failed", len(failed), launched)
	})
	s.do(t, http.MethodPut, "/v1/journeys/"+held, json.RawMessage(named(strings.Replace(stay, `"1h"`, `"2h"`, 1), hooks)), nil)
	s.do(t, http.MethodPost, "/v1/journeys/"+held+"/publish", nil, nil)
	s.do(t, http.MethodPost, "/v1/journeys/"+held+"/migrate", map[string]any{"from": 1, "to": 2, "nodeMap": map[string]string{"hold": "hold"}}, nil)
	s.do(t, http.MethodPost, "/v1/launches/"+l.LaunchID+"/pause", nil, nil)
	s.do(t, http.MethodPost, "/v1/launches/"+l.LaunchID+"/resume", nil, nil)
	s.do(t, http.MethodPost, "/v1/deliveries/"+failed[0]+"/redeliver", nil, nil)
	s.do(t, http.MethodPost, "/v1/redeliveries", map[string]any{"filter": map[string]any{"journeyId": held}}, &once)

	if e := s.api.AwaitEnd(t, through, time.Minute); e.Status != waypost.EnrollmentCompleted {
		t.Errorf("the enrollment is %+v", e)
	}
	deliveries := s.api.Deliveries(t, through)
	s.journey, s.message = way, deliveries["taken"].MessageID
	for _, node := range []string{"taken", "refused", "down", "garbage", "loud", "cut", "closed", "tls", "broken"} {
		if len(deliveries[node].AttemptLog) == 0 {
			t.Errorf("no attempt at %s: %+v", node, deliveries[node])
		}
	}
	s.do(t, http.MethodGet, "/v1/webhooks/"+hooks["DOWN"]+"/health", nil, nil)

	// PostgreSQL prints the statements that fail, with their values, where it is not
	// told otherwise (docs/operations.md): nothing of what went before may fail there.
	if s.postgres != nil {
		s.postgresLog = s.postgres.Process.Output.String()
	}
	// What goes wrong with a person's data at hand is logged, and Temporal tries it again.
	s.exec(t, "ALTER TABLE leads RENAME TO leads_away")
	s.send(t, http.MethodPost, "/v1/leads", nil, string(businessParam), http.StatusInternalServerError)
	s.send(t, http.MethodGet, "/v1/leads?"+filters, nil, "", http.StatusInternalServerError)
	s.send(t, http.MethodPost, "/v1/events", nil, fmt.Sprintf(`{"eventId":"e","name":"e","leadsId":%d,"properties":{"note":%q}}`, ophelia, plantedProperty), http.StatusInternalServerError)
	s.send(t, http.MethodPost, "/v1/events/import", ndjson, strings.Replace(event, "seen", "lost", 1), http.StatusInternalServerError)
	var im struct{ ID string }
	unmarshal(t, s.send(t, http.MethodPost, "/v1/leads/imports?mode=create", http.Header{"Content-Type": {"text/csv"}},
		"name,mobilePhone,email\n"+plantedName+",13712345672,"+plantedImported+"\n", http.StatusAccepted), &im)
	temporal := dialTemporal(t, s.base)
	harness.Eventually(t, launchTime, func() (bool, string) {
		var got imported
		s.do(t, http.MethodGet, "/v1/leads/imports/"+im.ID, nil, &got)
		d, err := temporal.DescribeWorkflowExecution(t.Context(), im.ID, "")
		return len(d.GetPendingActivities()) > 0 && d.PendingActivities[0].LastFailure != nil, fmt.Sprintf("the import has not failed: %+v %v, %v", got, d, err)
	})
	s.exec(t, "ALTER TABLE leads_away RENAME TO leads")
	if got := awaitImport(t, s.api, im.ID, 1); got.Created != 1 {
		t.Errorf("the import is %+v", got)
	}
	s.do(t, http.MethodDelete, fmt.Sprint("/v1/leads/", gone), nil, nil)
	s.do(t, http.MethodPost, "/v1/journeys/"+held+"/cancel", nil, nil)
}

func newSigningSecret() string {
	key := make([]byte, 32)
	_, _ = rand.Read(key) // it does not fail
	return "whsec_" + base64.StdEncoding.EncodeToString(key)
}

// repeat is a receiver that says what it was sent, as well as words of its own, in
// all places where a receiver can say something.
func repeat(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	said := func(succeed bool) string {
		b, _ := json.Marshal(map[string]any{"succeed": succeed, "message": plantedWords + " " + string(body), "echo": string(body)}) // it is encodable
		return string(b)
	}
	answer := said(r.URL.Path != "/refused")
	switch r.URL.Path {
	case "/down":
		w.Header().Set("X-Echo", r.Header.Get("Authorization"))
		w.WriteHeader(http.StatusInternalServerError)
	case "/moved":
		w.Header().Set("Location", "http://[::1/"+url.PathEscape(string(body))) // which cannot be read
		w.WriteHeader(http.StatusFound)
	case "/garbage":
		answer = plantedWords + string(body)
	case "/loud", "/cut":
		conn, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			return
		}
		defer conn.Close()
		if r.URL.Path == "/loud" { // an answer, and what nobody has asked for
			_, _ = fmt.Fprintf(conn, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(answer), answer)
		}
		_, _ = fmt.Fprintf(conn, "%s %s\r\n", plantedWords, body)
		return
	}
	_, _ = io.WriteString(w, answer)
}

// named is a definition with the ids of webhooks for their names.
func named(definition string, hooks map[string]string) string {
	for name, id := range hooks {
		definition = strings.ReplaceAll(definition, `"webhook":"`+name+`"`, `"webhook":"`+id+`"`)
	}
	return definition
}

func (s *site) publish(t *testing.T, hooks map[string]string, definition string) string {
	t.Helper()
	var made struct{ ID string }
	s.do(t, http.MethodPost, "/v1/journeys", json.RawMessage(named(definition, hooks)), &made)
	s.do(t, http.MethodPost, "/v1/journeys/"+made.ID+"/publish", nil, nil)
	return made.ID
}

func (s *site) do(t *testing.T, method, path string, body, answer any) {
	t.Helper()
	s.api.Do(t, method, path, body, answer)
}

// send makes a call that is answered with the status, and returns the answer.
func (s *site) send(t *testing.T, method, target string, header http.Header, body string, status int) []byte {
	t.Helper()
	if header = maps.Clone(header); header == nil {
		header = http.Header{}
	}
	if body != "" && header.Get("Content-Type") == "" {
		header.Set("Content-Type", "application/json")
	}
	res, err := s.api.Client.Send(t.Context(), method, target, header, []byte(body))
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil || res.StatusCode != status {
		t.Errorf("%s %s: HTTP %d, want %d: %s, %v", method, target, res.StatusCode, status, b, err)
	}
	return b
}

// sendRaw sends what is no request, or none that can be read to its end.
func (s *site) sendRaw(t *testing.T) {
	t.Helper()
	for _, raw := range []string{
		"GET /v1/leads?email=" + plantedEmail + " HTTP/1.1\r\nHost: x\r\nAuthorization " + plantedBadHeader + "\r\n\r\n",
		"GET /v1/leads?email=" + plantedEmail + " HTTP/1.1\r\nHost: x\r\nX-Long: " + plantedBadHeader + strings.Repeat("x", 1<<18) + "\r\n\r\n",
		"GET /v1/leads?email=" + plantedEmail + " " + plantedBadHeader + "\r\n\r\n",
		"POST /v1/leads HTTP/1.1\r\nHost: x\r\nContent-Length: " + plantedBadHeader + "\r\n\r\n",
		"POST /v1/leads HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n" + plantedBadHeader + "\r\n",
		plantedBadHeader + "\r\n\r\n",
	} {
		conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", strings.TrimPrefix(s.api.Client.URL, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.WriteString(conn, raw) // it may be hung up on before the end
		if err := conn.SetReadDeadline(time.Now().Add(10 * time.Second)); err != nil {
			t.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, conn)
		_ = conn.Close()
	}
}

// searchArticles searches as a person does. Roles of their own have no search engine
// here: they must not tell what was to be searched for either.
func (s *site) searchArticles(t *testing.T) {
	t.Helper()
	s.do(t, http.MethodPut, "/v1/articles/1", map[string]any{
		"tenant_id": "leaks", "name": "A title", "identifier": "a", "content": "Text.", "access_level": 0, "published": true,
		"frontend_url": "https://example.com/a", "channels": []any{}, "published_at": "2026-01-01T00:00:00Z",
	}, nil)
	var token struct {
		AccessToken string `json:"access_token"`
	}
	s.do(t, http.MethodPost, "/v1/tokens", map[string]any{"tenantIds": []string{"leaks"}, "from": []string{"frontend"}}, &token)
	s.planted = append(s.planted, planted{what: "search token", writings: []string{token.AccessToken}})
	for _, bearer := range []string{token.AccessToken, token.AccessToken + "x", plantedInvalid} {
		target := "/api/v1/articles/search?" + url.Values{"tenant_id": {"leaks"}, "from": {"frontend"}, "keywords": {plantedSearch}}.Encode()
		res, err := s.api.Client.WithBearer(bearer).Send(t.Context(), http.MethodGet, target, nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		_ = res.Body.Close()
		if known := bearer == token.AccessToken; known == (res.StatusCode == http.StatusUnauthorized) {
			t.Errorf("a search is answered with HTTP %d; its token is known: %t", res.StatusCode, known)
		}
	}
}

// collect returns all that the site has written anywhere, by place.
func (s *site) collect(t *testing.T) map[string][]byte {
	t.Helper()
	places := map[string][]byte{}
	maps.Copy(places, s.logs(t))
	maps.Copy(places, s.spans.bytes())
	for _, addr := range s.admin {
		places["metrics of "+addr] = get(t, "http://"+addr+"/metrics")
	}
	s.collectTemporal(t, places)
	s.collectRedis(t, places)
	s.collectSQL(t, places)
	err := filepath.WalkDir(s.base.Dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		b, err := os.ReadFile(path)
		if !strings.HasPrefix(d.Name(), datadir.LogFile) {
			places["file "+d.Name()] = append(places["file "+d.Name()], b...)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	// What is searched must be what it is taken for.
	for place, marker := range map[string]string{
		"log of ": s.message, "spans of ": s.message, "spans of waypost-": "/v1/leads/:id", "payloads": s.message, "histories": s.journey, "file temporal": s.journey,
		"sql deliveries.message_id": s.message, "redis": "waypost",
	} {
		if !slices.ContainsFunc(slices.Collect(maps.Keys(places)), func(p string) bool {
			return strings.HasPrefix(p, place) && bytes.Contains(places[p], []byte(marker))
		}) {
			t.Errorf("%s does not hold %s: the search proves nothing", place, marker)
		}
	}
	for _, addr := range s.admin {
		if !bytes.Contains(places["metrics of "+addr], []byte("waypost_started_total")) {
			t.Errorf("no metrics of %s", addr)
		}
	}
	return places
}

// logs returns what the processes have printed, and waypost-dev's log file.
func (s *site) logs(t *testing.T) map[string][]byte {
	t.Helper()
	file, err := os.ReadFile(filepath.Join(s.base.Dir, datadir.LogFile))
	if err != nil {
		t.Fatal(err)
	}
	logs := map[string][]byte{"log of " + datadir.LogFile: file}
	for name, p := range s.outputs {
		logs["log of "+name] = []byte(p.Output.String())
	}
	if s.postgres != nil {
		const started = "ready to accept connections"
		if !strings.Contains(s.postgresLog, started) {
			t.Errorf("PostgreSQL did not print %q: the search proves nothing", started)
		}
		logs["log of postgres"] = []byte(s.postgresLog)
	}
	return logs
}

func get(t *testing.T, address string) []byte {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, address, nil)
	if err != nil {
		t.Fatal(err)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil || res.StatusCode != http.StatusOK {
		t.Fatalf("GET %s: HTTP %d, %v", address, res.StatusCode, err)
	}
	return b
}

// collectTemporal reads all workflows and Schedules, as they are and decoded.
func (s *site) collectTemporal(t *testing.T, places map[string][]byte) {
	t.Helper()
	ring, err := waypost.ParseKeyring(scheduleKeys)
	if err != nil {
		t.Fatal(err)
	}
	codec := workflows.NewCodec(ring)
	add := func(m proto.Message, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		raw, err := proto.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		places["histories"] = append(places["histories"], raw...)
		err = proxy.VisitPayloads(t.Context(), m, proxy.VisitPayloadsOptions{
			SkipSearchAttributes: true,
			Visitor: func(_ *proxy.VisitPayloadsContext, payloads []*commonpb.Payload) ([]*commonpb.Payload, error) {
				return codec.Decode(payloads)
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		decoded, err := proto.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		places["payloads"] = append(places["payloads"], decoded...)
	}
	c := dialTemporal(t, s.base)
	list := &workflowservice.ListWorkflowExecutionsResponse{Executions: listed(t, c, "")}
	add(list, nil)
	kinds := map[string]bool{}
	for _, e := range list.Executions {
		kinds[e.Type.Name] = true
		for events := c.GetWorkflowHistory(t.Context(), e.Execution.WorkflowId, e.Execution.RunId, false, 0); events.HasNext(); {
			event, err := events.Next()
			if err != nil {
				t.Fatal(err)
			}
			add(&historypb.History{Events: []*historypb.HistoryEvent{event}}, nil)
		}
		add(c.DescribeWorkflowExecution(t.Context(), e.Execution.WorkflowId, e.Execution.RunId))
		if e.TaskQueue == nobody {
			continue
		}
		// The path so far is told by the workflow itself.
		said, err := c.QueryWorkflow(t.Context(), e.Execution.WorkflowId, e.Execution.RunId, "__temporal_workflow_metadata")
		var details sdkpb.WorkflowMetadata
		if err == nil {
			err = said.Get(&details)
		}
		add(&details, err)
	}
	for _, kind := range []string{workflows.TypeJourney, workflows.TypeLaunch, workflows.TypeLaunchOccurrence, workflows.TypeLeadImport, workflows.TypeRedelivery} {
		if !kinds[kind] {
			t.Errorf("there is no workflow %s: the search proves nothing", kind)
		}
	}
	schedules, err := c.WorkflowService().ListSchedules(t.Context(), &workflowservice.ListSchedulesRequest{Namespace: "default", MaximumPageSize: 100})
	add(schedules, err)
	for _, e := range schedules.Schedules {
		add(c.WorkflowService().DescribeSchedule(t.Context(), &workflowservice.DescribeScheduleRequest{Namespace: "default", ScheduleId: e.ScheduleId}))
	}
	if len(schedules.Schedules) == 0 {
		t.Error("there is no Schedule: the search proves nothing")
	}
}

// setting is one of the environment of roles.
func (s *site) setting(name string) string {
	for _, setting := range s.env {
		if value, ok := strings.CutPrefix(setting, name+"="); ok {
			return value
		}
	}
	return ""
}

// collectRedis reads all keys and their values.
func (s *site) collectRedis(t *testing.T, places map[string][]byte) {
	t.Helper()
	options, err := redis.ParseURL(s.setting("WAYPOST_REDIS_URL"))
	if err != nil {
		t.Fatal(err)
	}
	c := redis.NewClient(options)
	defer c.Close()
	keys, err := c.Keys(t.Context(), "*").Result()
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range keys {
		kind, err := c.Type(t.Context(), key).Result()
		var value any
		switch {
		case err != nil:
		case kind == "string":
			value, err = c.Get(t.Context(), key).Result()
		case kind == "hash":
			value, err = c.HGetAll(t.Context(), key).Result()
		case kind == "list":
			value, err = c.LRange(t.Context(), key, 0, -1).Result()
		case kind == "set":
			value, err = c.SMembers(t.Context(), key).Result()
		case kind == "zset":
			value, err = c.ZRange(t.Context(), key, 0, -1).Result()
		case kind != "none": // it has expired
			t.Errorf("Redis holds %s, which is a %s", key, kind)
		}
		if err != nil && !errors.Is(err, redis.Nil) {
			t.Fatal(err)
		}
		places["redis"] = fmt.Appendln(places["redis"], key, value)
	}
}

// openSQL opens the site's database; tables is a query for their names.
func (s *site) openSQL(t *testing.T) (db *sql.DB, tables string) {
	t.Helper()
	driver, dsn := "pgx", s.setting("WAYPOST_DATABASE_URL")
	tables = "SELECT table_name AS name FROM information_schema.tables WHERE table_schema = current_schema()"
	if path, ok := strings.CutPrefix(dsn, "sqlite:"); ok {
		driver, dsn = "sqlite", "file:"+path+"?_pragma=busy_timeout(10000)"
		tables = "SELECT name FROM sqlite_master WHERE type = 'table'"
	}
	db, err := sql.Open(driver, dsn)
	if err != nil {
		t.Fatal(err)
	}
	return db, tables
}

func (s *site) exec(t *testing.T, statement string) {
	t.Helper()
	db, _ := s.openSQL(t)
	defer db.Close()
	if _, err := db.ExecContext(t.Context(), statement); err != nil {
		t.Fatal(err)
	}
}

// collectSQL reads every column of every table. What is compressed is unpacked.
func (s *site) collectSQL(t *testing.T, places map[string][]byte) {
	t.Helper()
	db, tables := s.openSQL(t)
	defer db.Close()
	for _, table := range rowsOf(t, db, tables) {
		name := string(table["name"])
		for _, row := range rowsOf(t, db, `SELECT * FROM "`+name+`"`) {
			for column, value := range row {
				place := "sql " + name + "." + column
				places[place] = append(append(places[place], value...), '\n')
			}
		}
	}
}

func rowsOf(t *testing.T, db *sql.DB, query string) (list []map[string][]byte) {
	t.Helper()
	rows, err := db.QueryContext(t.Context(), query)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	columns, err := rows.Columns()
	if err != nil {
		t.Fatal(err)
	}
	for rows.Next() {
		values := make([]sql.RawBytes, len(columns))
		into := make([]any, len(columns))
		for i := range values {
			into[i] = &values[i]
		}
		if err := rows.Scan(into...); err != nil {
			t.Fatal(err)
		}
		row := map[string][]byte{}
		for i, column := range columns {
			row[column] = bytes.Clone(values[i])
			if unpacked, err := gzip.NewReader(bytes.NewReader(values[i])); err == nil {
				if row[column], err = io.ReadAll(unpacked); err != nil {
					t.Fatal(err)
				}
			}
		}
		list = append(list, row)
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return list
}

// search returns the places of each planted value, sorted. A database's own file
// holds what its tables do.
func (s *site) search(places map[string][]byte) map[string][]string {
	found := map[string][]string{}
	for _, p := range s.planted {
		var texts [][]byte
		for _, w := range p.writings {
			texts = append(texts, encodings(w)...)
		}
		for place, content := range places {
			if slices.ContainsFunc(texts, func(text []byte) bool { return bytes.Contains(content, text) }) {
				found[p.what] = append(found[p.what], place)
			}
		}
		slices.Sort(found[p.what])
		if p.erased || slices.ContainsFunc(found[p.what], func(place string) bool { return strings.HasPrefix(place, "sql ") }) {
			found[p.what] = slices.DeleteFunc(found[p.what], func(place string) bool { return strings.HasPrefix(place, "file "+datadir.DatabaseFile) })
		}
	}
	return found
}

// encodings are the forms that a text can take on its way: as it is, in lower case,
// in a URL, in JSON of ASCII, and in base64 wherever it begins there.
func encodings(text string) [][]byte {
	list := []string{text, strings.ToLower(text), url.QueryEscape(text), url.PathEscape(text)}
	if ascii := strconv.QuoteToASCII(text); ascii != `"`+text+`"` {
		list = append(list, strings.Trim(ascii, `"`))
	}
	for before := range 3 {
		// The characters that share bits with what stands around it are left out.
		encoded := base64.RawStdEncoding.EncodeToString([]byte(strings.Repeat("\x00", before) + text))
		list = append(list, encoded[(before*8+5)/6:(before+len(text))*8/6])
	}
	slices.Sort(list)
	var distinct [][]byte
	for _, form := range slices.Compact(list) {
		distinct = append(distinct, []byte(form))
	}
	return distinct
}

package gateway

import (
	"context"
	"time"

	"github.com/gofiber/fiber/v2"

	"waypost"
)

// What is simulated is to depend on no clock.
func init() {
	simulationWait, simulationTime, segmentTime, storedWait = time.Minute, time.Minute, time.Minute, time.Minute
}

// NewHasty makes a gateway that gives headers and bodies another time.
func NewHasty(o Options, patience time.Duration) *fiber.App {
	a := newServer(o)
	a.headerTime, a.bodyTime = patience, patience
	return a.server()
}

// NewStrict makes a gateway that looks after each window whether enough was sent or read.
func NewStrict(o Options, window time.Duration) *fiber.App {
	a := newServer(o)
	a.headerTime, a.bodyTime, a.window = time.Minute, time.Minute, window
	return a.server()
}

// NewBare serves the handlers of a gateway without anything around them: no limits,
// no signature, no replay guard, no log. It is what the benchmarks compare with.
func NewBare(o Options, scope waypost.Scope) *fiber.App {
	a := &server{Options: o, definitions: newDefinitions()}
	app := fiber.New(fiber.Config{DisableStartupMessage: true, Immutable: true})
	for _, rt := range routes {
		app.Add(rt.method, rt.path, func(c *fiber.Ctx) error {
			r := &request{c: c, route: &rt, scope: scope, body: c.Body(), params: map[string]string{}, began: time.Now()}
			ans, err := rt.handle(a, context.Background(), r)
			if err != nil {
				return err
			}
			return ans.write(a, c)
		})
	}
	return app
}

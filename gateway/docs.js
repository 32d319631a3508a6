SwaggerUIBundle({
  url: "openapi.yaml",
  dom_id: "#ui",
  deepLinking: true,
  docExpansion: "list",
  defaultModelsExpandDepth: 0,
  supportedSubmitMethods: [],
  validatorUrl: null,
  presets: [SwaggerUIBundle.presets.apis],
  plugins: [{wrapComponents: {authorizeBtn: () => () => null}}],
});

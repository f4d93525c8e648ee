"""Keys of another program's settings files that are ignored and reported, so that such files load unchanged."""

ELSEWHERE = frozenset(
    """
    $schema advisorModel agent agentPushNotifEnabled allowAllClaudeAiMcps allowManagedMcpServersOnly
    allowManagedPermissionRulesOnly allowedChannelPlugins allowedHttpHookUrls allowedMcpServers
    alwaysThinkingEnabled askUserQuestionTimeout attribution autoCompactEnabled autoCompactWindow autoConnectIde
    autoInstallIdeExtension autoMemoryDirectory autoMemoryEnabled autoMode autoScrollEnabled autoUpdatesChannel
    availableModels awaySummaryEnabled awsAuthRefresh awsCredentialExport axScreenReader blockedMarketplaces
    browserExternalPageTools channelsEnabled claudeMd claudeMdExcludes cleanupPeriodDays companyAnnouncements
    crossSessionInbound defaultShell deniedMcpServers dialogExpiry diffTool disableAgentView disableArtifact
    disableAutoMode disableBrowserExternalNavigation disableBundledSkills disableClaudeAiConnectors
    disableCommandPluginSources disableDeepLinkRegistration disableMobileSimulatorTools disableRemoteControl
    disableSideloadFlags disableSkillShellExecution disableWorkflows disabledMcpjsonServers editorMode effortLevel
    emojiCompletionEnabled enableAllProjectMcpServers enableArtifact enableWorkflows enabledMcpjsonServers
    enabledPlugins enforceAvailableModels externalEditorContext extraKnownMarketplaces fallbackModel fastMode
    fastModePerSessionOptIn feedbackSurveyRate fileCheckpointingEnabled fileSuggestion footerLinksRegexes
    forceLoginGatewayUrl forceLoginMethod forceLoginOrgUUID forceRemoteSettingsRefresh gcpAuthRefresh
    httpHookAllowedEnvVars includeCoAuthoredBy includeGitInstructions inputNeededNotifEnabled isolatePeerMachines
    keybindingFlavor language minimumVersion model modelOverrides otelHeadersHelper outputStyle
    parentSettingsBehavior permissionExplainerEnabled plansDirectory pluginConfigs pluginSuggestionMarketplaces
    pluginTrustMessage policyHelper prUrlTemplate preferredNotifChannel prefersReducedMotion processWrapper
    promptSuggestionEnabled remote remoteControlAtStartup requiredMaximumVersion requiredMinimumVersion
    respectGitignore respondToBashCommands showClearContextOnPlanAccept showThinkingSummaries showTurnDuration
    skillListingBudgetFraction skillListingMaxDescChars skillOverrides skipAutoPermissionPrompt
    skipDangerousModePermissionPrompt skipWebFetchPreflight spellcheck spinnerTipsEnabled spinnerTipsOverride
    spinnerVerbs sshConfigs sshHostAllowlist strictKnownMarketplaces strictPluginOnlyCustomization
    subagentStatusLine switchModelsOnFlag syncClaudeAiSkills syntaxHighlightingDisabled teammateDefaultModel
    teammateMode terminalProgressBarEnabled terminalTitleFromRename theme tui ultracode useAutoModeDuringPlan
    verbose viewMode vimInsertModeRemaps voice voiceEnabled wheelScrollAccelerationEnabled
    workflowKeywordTriggerEnabled workflowSizeGuideline worktree wslInheritsWindowsSettings
    """.split()  # noqa: SIM905 - a literal list would take one line per name
)
OUTSIDE = ("blockReadsOutsideWorkingDirectories", "blockWritesOutsideWorkingDirectories")
PERMISSIONS = frozenset({"disableAutoMode", "skipDangerousModePermissionPrompt", "skipAutoPermissionPrompt", *OUTSIDE})
